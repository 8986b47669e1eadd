-- Part of the decide and refund scripts: the state of a counter as Redis stores it.
-- A value is nothing, an instant in nanoseconds (kept as ms and the ns past it), or two windows
-- 'index:previous:current'. Behind it may be a mark, '@' and the pace at which it was written if that
-- is not the base pace of its limit, and a stamp, '!' and the ms at which its excess was last
-- forgiven. Uses neither KEYS nor ARGV.
local ceil, min, max = math.ceil, math.min, math.max
local byte, type, try = string.byte, type, redis.pcall
local NOTHING, INSTANT, WINDOWS, FOREIGN = 0, 1, 2, 3
-- Timestamps end at 2^64 - 1 nanoseconds.
local END_MS, END_NS = 18446744073709, 551615

-- Returns the shape of an instant and its numbers.
local function parse_instant(value)
  local ms, ns = tonumber(sub(value, 1, -7)) or 0, tonumber(sub(value, -6))
  if ms > END_MS then ms = END_MS end
  return INSTANT, ms, ns
end

-- Splits a value that is not all digits. Returns the state, and pace and stamp where there are any;
-- nothing when the value is not ours.
local function split(value)
  local state, mark, stamp = match(value, '^([%d:]+)(@?%l?[%d:]*)(!?%d*)$')
  if not state then return end
  local is_mark = mark == ''
    or (#mark <= 18 and find(mark, '^@[tw][1-9]%d*$'))
    or (#mark <= 26 and find(mark, '^@d[1-9]%d*:[1-9]%d*:[01]$'))
  if not is_mark or not (stamp == '' or find(stamp, '^!%d+$')) then return end
  return state, mark ~= '' and sub(mark, 2), stamp ~= '' and tonumber(sub(stamp, 2))
end

-- Parses a value, or the error of reading it. Returns the shape, its three numbers, pace and stamp.
-- A value that is no state of ours is FOREIGN, with a reason: its requests fail with that reason, and
-- it is never written.
local function parse(value)
  if not value then return NOTHING end
  if type(value) == 'table' then return FOREIGN, value.err end
  if find(value, '^%d+$') then return parse_instant(value) end
  local state, pace, stamp = split(value)
  if state and find(state, '^%d+$') then
    local shape, ms, ns = parse_instant(state)
    return shape, ms, ns, nil, pace, stamp
  end
  local index, previous, current = match(state or '', '^(%d+):(%d+):(%d+)$')
  if not index then return FOREIGN, 'the value under this name is not a counter' end
  return WINDOWS, min(tonumber(index), 2 ^ 53), min(tonumber(previous), 2 ^ 53), min(tonumber(current), 2 ^ 53), pace, stamp
end

-- An instant in decimal nanoseconds.
local function digits(ms, ns)
  if ms == 0 then return format('%d', ns) end
  if ms >= END_MS and (ms > END_MS or ns > END_NS) then ms, ns = END_MS, END_NS end
  return format('%d%06d', ms, ns)
end
