-- Mirrors sluicegate_core::algorithm::sliding_window. limit * window_ms is below 2^53. Uses neither
-- KEYS nor ARGV.

-- The counts now. Returns index, previous, current, elapsed_ms, repaired.
local function windows_view(k, window_ms, limit)
  local index = floor(now_ms / window_ms)
  local previous, current, elapsed_ms, repaired = 0, 0, now_ms - index * window_ms, false
  if shapes[k] == WINDOWS then
    local stored = highs[k]
    if stored > index then
      if stored * window_ms - now_ms > MAX_CLOCK_STEP_MS + window_ms then
        -- Counted as spent in this window, not in the one before, of which part is out of view
        -- already.
        current, repaired = limit, true
      else
        index, previous, current, elapsed_ms = stored, lows[k], currents[k], 0
      end
    elseif stored == index then
      previous, current = lows[k], currents[k]
    elseif stored + 1 == index then
      previous = currents[k]
    end
  end
  return index, min(previous, limit), min(current, limit), elapsed_ms, repaired
end

-- Changes the counts. They matter for two windows, or one if the current window is empty.
local function windows_set(k, window_ms, index, previous, current)
  shapes[k], highs[k], lows[k], currents[k] = WINDOWS, index, previous, current
  local windows_left = current > 0 and 2 or 1
  lives[k] = min((index + windows_left) * window_ms, END_MS) - now_ms + 2
end

-- Decides one charge. Returns whether it is allowed.
local function windows_decide(k, window_ms, limit, cost)
  if cost > limit then return false end
  if cost == 0 then return true end
  local index, previous, current, elapsed_ms, repaired = windows_view(k, window_ms, limit)
  local room = limit * window_ms - previous * (window_ms - elapsed_ms) - current * window_ms
  if cost * window_ms > room then
    if repaired then windows_set(k, window_ms, index, previous, current) end
    return false
  end
  windows_set(k, window_ms, index, previous, current + cost)
  return true
end
