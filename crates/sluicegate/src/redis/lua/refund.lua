-- Main part of the refund script: gives back units that were spent, less what has flowed back
-- since. The key is deleted when the counter is full.
-- KEYS[1] the counter
-- ARGV[1] the clock, see time.lua
-- ARGV[2] the charge, as in decide.lua
-- ARGV[3] 'a<ns>' the age of the charge, or '@<ns>' its instant by the clock of this call
-- returns the time, then + and the state after, with @ and its pace if nothing could be given back
--   because more is owed than the limit since that was changed; or ! and the reason for a key that
--   is not ours

local charged_ms, charged_ns, age
do
  local ms, ns = tonumber(sub(ARGV[3], 2, -7)) or 0, tonumber(sub(ARGV[3], max(2, #ARGV[3] - 5)))
  if find(ARGV[3], '^a') then
    age = ms * 1000000 + ns
    charged_ms, charged_ns = now_ms - ms, now_ns - ns
    if charged_ns < 0 then charged_ms, charged_ns = charged_ms - 1, charged_ns + 1000000 end
    if charged_ms < 0 then charged_ms, charged_ns = 0, 0 end
  else
    age = (now_ms - ms) * 1000000 + (now_ns - ns)
    charged_ms, charged_ns = ms, ns
    if age < 0 then age, charged_ms, charged_ns = 0, now_ms, now_ns end
  end
end

-- Mirrors token_bucket::refund. Returns whether a state is left to store.
local function token_bucket_refund(tolerance, needed)
  if shapes[1] ~= INSTANT then return false end
  local debt = token_bucket_debt(highs[1], lows[1], tolerance)
  local debt_after = debt - max(needed - age, 0)
  if debt_after <= 0 then return false end
  set_instant(1, token_bucket_state(debt_after))
  return true
end

-- a * b / c rounded up, exactly, for a < c <= 2^42 and b <= 2^20. The product itself may exceed
-- 2^53, so b is split at 2^10.
local function product_over(a, b, c)
  local product = a * floor(b / 1024)
  local quotient = floor(product / c)
  return quotient * 1024 + ceil(((product - quotient * c) * 1024 + a * (b % 1024)) / c)
end

-- Units that have drained in a span, as if the level fell evenly; rounded up.
local function drained_in(span_ms, bucket)
  local intervals = floor(span_ms / bucket.interval_ms)
  return intervals * bucket.drip + product_over(span_ms - intervals * bucket.interval_ms, bucket.drip, bucket.interval_ms)
end

-- Mirrors drip::Back. Returns the units that come off the level, and how much earlier every later
-- drip is.
local function drip_back(bucket, cost, units, end_ms, slack)
  local age_ms = now_ms - charged_ms
  if bucket.aligned then
    local phase = end_ms % bucket.interval_ms
    local drips_since = floor(max(now_ms - phase, 0) / bucket.interval_ms)
      - floor(max(charged_ms - phase, 0) / bucket.interval_ms)
    return max(cost - drips_since * bucket.drip, 0), 0
  end
  if age_ms == 0 then return cost, 0 end
  local drained = drained_in(age_ms, bucket)
  if drained > cost then return 0, 0 end
  -- The level, as if it fell evenly, is no more than the refund is worth: it was all this charge.
  if drained_in(end_ms - now_ms + age_ms, bucket) <= cost + slack then return units, 0 end
  -- The time of what has drained, less the age: the whole intervals of the age are in both.
  local rest_ms = age_ms % bucket.interval_ms
  local rest = product_over(rest_ms, bucket.drip, bucket.interval_ms)
  local per_unit_ms = floor(bucket.interval_ms / bucket.drip)
  local early_ms = rest * per_unit_ms + floor(rest * (bucket.interval_ms % bucket.drip) / bucket.drip) - rest_ms
  return cost - drained, early_ms
end

-- Mirrors drip::refund. Returns whether a state is left to store.
local function drip_refund(bucket, cost)
  local level, level_drips, level_end_ms, slack = drip_level(1, bucket)
  local back, early_ms = drip_back(bucket, cost, level, level_end_ms, slack)
  local units = level - back
  if units <= 0 then return false end
  local drips = ceil(units / bucket.drip)
  local end_ms = level_end_ms - (level_drips - drips) * bucket.interval_ms - early_ms
  drip_set(1, end_ms, drips * bucket.drip - units)
  return true
end

-- Mirrors sliding_window::refund. Returns whether a state is left to store.
local function windows_refund(window_ms, limit, cost)
  local index, previous, current = windows_view(1, window_ms, limit)
  local windows_ago = max(index - floor(charged_ms / window_ms), 0)
  if windows_ago == 0 then current = max(current - cost, 0) end
  if windows_ago == 1 then previous = max(previous - cost, 0) end
  if current == 0 and previous == 0 then return false end
  windows_set(1, window_ms, index, previous, current)
  return true
end

if load(1) == FOREIGN then return { digits(now_ms, now_ns), '!' .. highs[1] } end
local stored = shapes[1] ~= NOTHING
local charge = read_charge(ARGV[2])
local pace = other_pace(1, charge)
if pace then
  local exceeds, kept = convert(1, charge, pace)
  if kept then return { digits(now_ms, now_ns), '+' .. text(1) .. '@' .. pace } end
  if exceeds then stamps[1] = now_ms end
end
local left
if charge.algorithm == 't' then
  left = token_bucket_refund(charge.tolerance, charge.cost * charge.interval)
elseif charge.algorithm == 'd' then
  left = drip_refund(charge.bucket, charge.cost)
else
  left = windows_refund(charge.window_ms, charge.limit, charge.cost)
end
if left then
  store(1, lives[1])
  return { digits(now_ms, now_ns), '+' .. text(1) }
end
shapes[1] = NOTHING
if stamp_of(1) then
  store(1, 0)
elseif stored then
  call('DEL', KEYS[1])
end
return { digits(now_ms, now_ns), '+' }
