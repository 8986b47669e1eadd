-- Replaces a value if it has not changed since it was read.
-- KEYS[1] the key
-- ARGV[1] the value that was read, '' for none
-- ARGV[2] the new value
-- ARGV[3] its time to live in milliseconds
-- returns 1 when the new value was stored, 0 when the key held another value
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
