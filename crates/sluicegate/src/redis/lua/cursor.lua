-- Where this call stands: the next argument, the next key that is new, and the answers so far, of which now is the first.
local position, next_key = 2, 1
local answers, answered = {}, 1

-- The machines and requests that are rarer; a call without them does not pay for building their functions.
local function machines()
