-- Mirrors sluicegate_core::algorithm::drip: leaky buckets and fixed windows. Uses neither KEYS nor
-- ARGV. bucket = { interval_ms, drip, size, aligned }; a size is at most 2^51.

-- The level now. Returns units, drips, end_ms, slack, repaired.
local function drip_level(k, bucket)
  if shapes[k] ~= INSTANT or highs[k] <= now_ms then return 0, 0, now_ms, 0, false end
  local end_ms, slack = highs[k], lows[k]
  local drips_when_full = ceil(bucket.size / bucket.drip)
  local drain_ms = drips_when_full * bucket.interval_ms
  if end_ms - now_ms > drain_ms + MAX_CLOCK_STEP_MS then
    return bucket.size, drips_when_full, now_ms + drain_ms, drips_when_full * bucket.drip - bucket.size, true
  end
  -- A slack of a whole drip or more was left by a larger drip size. Taking it as none denies rather
  -- too much than too little.
  if slack >= bucket.drip then slack = 0 end
  local drips = ceil((end_ms - now_ms) / bucket.interval_ms)
  return drips * bucket.drip - slack, drips, end_ms, slack, false
end

-- Changes a counter to a level that is empty at end_ms.
local function drip_set(k, end_ms, slack)
  set_instant(k, end_ms, slack, min(end_ms, END_MS) - now_ms + 2)
end

-- Decides one charge. Returns whether it is allowed.
local function drip_decide(k, bucket, cost)
  local units, _, end_ms, slack, repaired = drip_level(k, bucket)
  if cost > bucket.size then return false end
  if cost == 0 then return true end
  if units + cost > bucket.size then
    if repaired then drip_set(k, end_ms, slack) end
    return false
  end
  if end_ms <= spent_ms then
    local start_ms = bucket.aligned and spent_ms - spent_ms % bucket.interval_ms or spent_ms
    local drips = ceil(cost / bucket.drip)
    drip_set(k, start_ms + drips * bucket.interval_ms, drips * bucket.drip - cost)
    return true
  end
  local drips = ceil(max(cost - slack, 0) / bucket.drip)
  drip_set(k, end_ms + drips * bucket.interval_ms, slack + drips * bucket.drip - cost)
  return true
end
