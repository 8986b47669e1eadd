-- Part of the decide script: the position in ARGV, the next key that was not used yet, and the
-- answers so far, of which the time is the first.
local position, next_key = 2, 1
local answers, answered = {}, 1

-- Encloses the files up to request.lua: the rarer algorithms and requests. A call without them does
-- not pay for building their functions. Rust closes it with `end`.
local function build_decide_request()
