-- Puts a value in the place of the one that was read, if that is still there.
-- KEYS[1] the value   ARGV the value that was read ('' = none), the new one, its time to live in milliseconds
-- returns 1, or 0 when somebody else was quicker
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
