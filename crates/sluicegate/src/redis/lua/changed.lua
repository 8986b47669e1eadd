-- Mirrors sluicegate_core::algorithm::changed: counters that were written at another pace. Uses
-- neither KEYS nor ARGV. A pace is 't<interval_ns>', 'd<interval_ms>:<drip>:<aligned>' or
-- 'w<window_ms>'.
local UNITS_MAX = 2 ^ 53

-- The pace at which a counter was written, if it is another than that of the charge.
local function other_pace(k, charge)
  local pace = paces[k] or charge.base
  if pace ~= charge.pace then return pace end
end

-- Units of windows of this length that are in view.
local function windows_owed(k, window_ms)
  if shapes[k] ~= WINDOWS then return 0 end
  local index, stored = floor(now_ms / window_ms), highs[k]
  local previous, current, elapsed_ms = 0, 0, now_ms - index * window_ms
  if stored > index then
    if stored * window_ms - now_ms > MAX_CLOCK_STEP_MS + window_ms then return UNITS_MAX end
    previous, current, elapsed_ms = lows[k], currents[k], 0
  elseif stored == index then
    previous, current = lows[k], currents[k]
  elseif stored + 1 == index then
    previous = currents[k]
  end
  local most = floor((UNITS_MAX - 1) / window_ms)
  previous, current = min(previous, most), min(current, most)
  return min(current + ceil(previous * (window_ms - elapsed_ms) / window_ms), UNITS_MAX)
end

-- Units that a counter owes at a pace; then, for a token bucket, the part of the unit that is just
-- flowing back which has come back already, in 1024ths.
local function units_owed(k, pace)
  local kind, first, drip = match(pace, '^(%a)(%d+):?(%d*)')
  first = first + 0
  if kind == 'w' then return windows_owed(k, first), 0 end
  if shapes[k] ~= INSTANT then return 0, 0 end
  if kind == 't' then
    local debt = (highs[k] - now_ms) * 1000000 + (lows[k] - now_ns)
    debt = min(max(debt, 0), UNITS_MAX)
    return ceil(debt / first), floor((first - debt % first) % first / ceil(first / 1024))
  end
  if highs[k] <= now_ms then return 0, 0 end
  drip = drip + 0
  local slack = lows[k]
  if slack >= drip then slack = 0 end
  return min(ceil((highs[k] - now_ms) / first) * drip - slack, UNITS_MAX), 0
end

-- Changes a counter to one that owes so many units, at most the limit of the charge.
local function owe(k, charge, units, parts_back)
  paces[k] = charge.base and charge.pace or false
  if units == 0 then
    shapes[k] = NOTHING
  elseif charge.algorithm == 't' then
    local debt = units * charge.interval - parts_back * floor(charge.interval / 1024)
    set_instant(k, token_bucket_state(debt))
  elseif charge.algorithm == 'd' then
    local interval_ms, drip = charge.bucket.interval_ms, charge.bucket.drip
    local start_ms = charge.bucket.aligned and now_ms - now_ms % interval_ms or now_ms
    local drips = ceil(units / drip)
    drip_set(k, start_ms + drips * interval_ms, drips * drip - units)
  else
    windows_set(k, charge.window_ms, floor(now_ms / charge.window_ms), 0, units)
  end
end

-- Converts a counter from another pace to that of the charge. Returns whether more was owed than
-- the limit of the charge; then whether that is kept, because it was forgiven within the last
-- minute: such a counter is not changed.
local function convert(k, charge, pace)
  local units, parts_back = units_owed(k, pace)
  local exceeds = units > charge.limit
  if exceeds then
    if stamp_of(k) then return true, true end
    units, parts_back = charge.limit, 0
  end
  owe(k, charge, units, parts_back)
  return exceeds, false
end
