-- The instant of this call, as now_ms and the nanoseconds now_ns past it: a Lua number is exact up to 2^53 only.
-- ARGV[1] '' the server's clock   'r<ns>' the replica's, if it may be believed   '=<ns>' as given; tests pass it
local KEYS, ARGV = KEYS, ARGV
local call, floor, tonumber = redis.call, math.floor, tonumber
local string = string
local find, format, match, sub = string.find, string.format, string.match, string.sub

local now_ms, now_ns
-- Units are spent by the server's clock, lag_ns after now: a replica that is behind would record them as older than they
-- are, and they would come back early. 0 unless the replica's clock counts.
local spent_ms, lag_ns
-- Milliseconds that every key lives longer: a clock that is given may stand still while Redis' goes on.
local grace_ms = 0
local clock = ARGV[1]
local given = clock ~= '' and find(clock, '^=')
if not given then
  local time = call('TIME')
  local micros = time[2] + 0
  now_ms = time[1] * 1000 + floor(micros / 1000)
  now_ns = micros % 1000 * 1000
end
local server_ms, server_ns = now_ms, now_ns
if clock ~= '' then
  local digits = sub(clock, 2)
  local ms, ns = tonumber(sub(digits, 1, -7)) or 0, tonumber(sub(digits, -6))
  if given then
    now_ms, now_ns, grace_ms = ms, ns, 3600000
  elseif ms < now_ms - 1000 or (ms == now_ms - 1000 and ns < now_ns) then
    -- Too far behind to be believed: units would come back late, and for as long as the clock is wrong.
    now_ms = now_ms - 1000
  elseif ms < now_ms or (ms == now_ms and ns < now_ns) then
    -- Never ahead of the server: units would come back early.
    now_ms, now_ns = ms, ns
  end
end

if given then
  spent_ms, lag_ns = now_ms, 0
else
  spent_ms, lag_ns = server_ms, (server_ms - now_ms) * 1000000 + (server_ns - now_ns)
end

-- The largest clock step that is believed. A stored time further ahead is a step or garbage, and is repaired.
local MAX_CLOCK_STEP_MS = 60000
