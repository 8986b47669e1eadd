-- The counters of this call: each is read at its first use, and written at most once, after everything is decided.
local shapes, highs, lows, currents = {}, {}, {}, {}
-- Milliseconds until the state is of no more use, for the counters that changed.
local lives = {}

local function load(k)
  local value = try('GET', KEYS[k])
  if value then
    shapes[k], highs[k], lows[k], currents[k] = parse(value)
  else
    shapes[k] = NOTHING
  end
  return shapes[k]
end

local function set_instant(k, ms, ns, life_ms)
  if ms >= END_MS and (ms > END_MS or ns > END_NS) then ms, ns = END_MS, END_NS end
  shapes[k], highs[k], lows[k], lives[k] = INSTANT, ms, ns, life_ms
end

local function charge_token_bucket(k, tolerance, needed)
  local ms, ns
  if shapes[k] == INSTANT then ms, ns = highs[k], lows[k] end
  local answer, debt = token_bucket_decide(ms, ns, tolerance, needed)
  if debt then set_instant(k, token_bucket_state(debt)) end
  return answer
end

-- A state as it is stored; '' for none.
local function text(k)
  local shape = shapes[k]
  if shape == INSTANT then return digits(highs[k], lows[k]) end
  if shape == WINDOWS then return format('%d:%d:%d', highs[k], lows[k], currents[k]) end
  return ''
end
