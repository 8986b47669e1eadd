-- GCRA as one integer: the instant, in nanoseconds, at which the bucket is full again.
-- KEYS[1] counter   ARGV tolerance_ns, needed_ns
-- returns the debt after, or -1 - debt when denied
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local stored = redis.call('GET', KEYS[1])
local debt = 0
if stored then
  debt = (tonumber(string.sub(stored, 1, -4)) - now_us) * 1000 + tonumber(string.sub(stored, -3))
  if debt < 0 then debt = 0 end
end
local after = debt + tonumber(ARGV[2])
if after > tonumber(ARGV[1]) then return -1 - debt end
local rest = after % 1000
local full_at = string.format('%d%03d', now_us + (after - rest) / 1000, rest)
redis.call('SET', KEYS[1], full_at, 'PX', math.floor(after / 1000000) + 2)
return after
