-- Part of the decide and refund scripts: the counters of this call, by their index in KEYS. Each is
-- read at its first use, and written at most once, after everything is decided.
-- KEYS the counters   ARGV not used here
local shapes, highs, lows, currents = {}, {}, {}, {}
-- Time to live in milliseconds, only for the counters that changed: these are written.
local lives = {}

-- Reads a counter. Returns its shape.
local function load(k)
  local value = try('GET', KEYS[k])
  if value then
    shapes[k], highs[k], lows[k], currents[k] = parse(value)
  else
    shapes[k] = NOTHING
  end
  return shapes[k]
end

-- Changes a counter to an instant, at most the last that a timestamp can hold.
local function set_instant(k, ms, ns, life_ms)
  if ms >= END_MS and (ms > END_MS or ns > END_NS) then ms, ns = END_MS, END_NS end
  shapes[k], highs[k], lows[k], lives[k] = INSTANT, ms, ns, life_ms
end

-- Charges a token bucket. Returns the answer of token_bucket_decide.
local function charge_token_bucket(k, tolerance, needed)
  local ms, ns
  if shapes[k] == INSTANT then ms, ns = highs[k], lows[k] end
  local answer, debt = token_bucket_decide(ms, ns, tolerance, needed)
  if debt then set_instant(k, token_bucket_state(debt)) end
  return answer
end

-- The state of a counter as Redis stores it; '' for a full counter.
local function text(k)
  local shape = shapes[k]
  if shape == INSTANT then return digits(highs[k], lows[k]) end
  if shape == WINDOWS then return format('%d:%d:%d', highs[k], lows[k], currents[k]) end
  return ''
end
