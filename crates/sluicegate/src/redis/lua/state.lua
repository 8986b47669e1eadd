-- Part of the decide and refund scripts: the state of a counter as Redis stores it.
-- A value is nothing, an instant in nanoseconds (kept as ms and the ns past it), or two windows
-- 'index:previous:current'. Uses neither KEYS nor ARGV.
local ceil, min, max = math.ceil, math.min, math.max
local byte, type, try = string.byte, type, redis.pcall
local NOTHING, INSTANT, WINDOWS, FOREIGN = 0, 1, 2, 3
-- Timestamps end at 2^64 - 1 nanoseconds.
local END_MS, END_NS = 18446744073709, 551615

-- Parses a value, or the error of reading it. Returns the shape and its numbers. A value that is no
-- state of ours is FOREIGN, with a reason: its requests fail with that reason, and it is never
-- written.
local function parse(value)
  if not value then return NOTHING end
  if type(value) == 'table' then return FOREIGN, value.err end
  if find(value, '^%d+$') then
    local ms, ns = tonumber(sub(value, 1, -7)) or 0, tonumber(sub(value, -6))
    if ms > END_MS then ms = END_MS end
    return INSTANT, ms, ns
  end
  local index, previous, current = match(value, '^(%d+):(%d+):(%d+)$')
  if not index then return FOREIGN, 'the value under this name is not a counter' end
  return WINDOWS, min(tonumber(index), 2 ^ 53), min(tonumber(previous), 2 ^ 53), min(tonumber(current), 2 ^ 53)
end

-- An instant in decimal nanoseconds.
local function digits(ms, ns)
  if ms == 0 then return format('%d', ns) end
  if ms >= END_MS and (ms > END_MS or ns > END_NS) then ms, ns = END_MS, END_NS end
  return format('%d%06d', ms, ns)
end
