-- Mirrors sluicegate_core::algorithm::token_bucket. Debts are in nanoseconds and below 2^53, or so
-- far ahead that they are repaired. Uses neither KEYS nor ARGV.

-- Returns the tolerance, and the time that a cost needs: -1 for one that never fits. Both products
-- are at most 2^52 otherwise.
local function token_bucket_numbers(interval, burst, cost)
  return burst * interval, cost > burst and -1 or cost * interval
end

-- Returns the debt, and whether the stored instant was too far ahead to be true.
local function token_bucket_debt(full_ms, full_ns, tolerance)
  -- A stored time in the past means that the caller is idle: the bucket is full.
  local debt = (full_ms - now_ms) * 1000000 + (full_ns - now_ns)
  if debt <= 0 then return 0, false end
  if debt > tolerance + MAX_CLOCK_STEP_MS * 1000000 then return tolerance, true end
  return debt, false
end

-- Decides one charge. full_ms is nil for a full bucket; needed is cost * interval, 0 for a look, -1
-- for a cost that never fits. Returns the debt after, or -1 - debt when denied; then the debt to
-- store, if it changed. Returns nothing for a denial that would repair the stored instant, which may
-- be true under a larger limit: that is decided like the charge of a counter of another pace.
local function token_bucket_decide(full_ms, full_ns, tolerance, needed)
  local debt, repaired = 0, false
  if full_ms then debt, repaired = token_bucket_debt(full_ms, full_ns, tolerance) end
  if needed <= 0 then
    if needed == 0 then return debt end
    return -1 - debt
  end
  local after = debt + needed
  if after > tolerance then
    if repaired then return end
    return -1 - debt
  end
  if debt < lag_ns then after = lag_ns + needed end
  return after, after
end

-- Converts a debt to the instant at which it is paid, as ms and ns, and the time to live in ms.
local function token_bucket_state(debt)
  local whole_ms = floor(debt / 1000000)
  local ms, ns = now_ms + whole_ms, now_ns + (debt - whole_ms * 1000000)
  if ns >= 1000000 then ms, ns = ms + 1, ns - 1000000 end
  -- Plus one for the part of a millisecond, and one because TIME may be ahead of the clock that
  -- expires keys.
  return ms, ns, whole_ms + 2
end
