-- Part of the decide and refund scripts: the counters of this call, by their index in KEYS. Each is
-- read at its first use, and written at most once, after everything is decided.
-- KEYS the counters   ARGV not used here
local shapes, highs, lows, currents = {}, {}, {}, {}
-- The pace of a counter where it is not the base pace, and when its excess was last forgiven.
local paces, stamps = {}, {}
-- The time between two forgivenesses of one counter.
local FORGIVENESS_MS = 60000
-- Time to live in milliseconds, only for the counters that changed: these are written.
local lives = {}

-- Reads a counter. Returns its shape.
local function load(k)
  local value = try('GET', KEYS[k])
  if value then
    shapes[k], highs[k], lows[k], currents[k], paces[k], stamps[k] = parse(value)
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

-- Charges a token bucket. Returns the answer of token_bucket_decide, which may be nothing.
local function charge_token_bucket(k, tolerance, needed)
  local ms, ns
  if shapes[k] == INSTANT then ms, ns = highs[k], lows[k] end
  local answer, debt = token_bucket_decide(ms, ns, tolerance, needed)
  if debt then set_instant(k, token_bucket_state(debt)) end
  return answer
end

-- The state of a counter without its mark; '' for a full counter.
local function text(k)
  local shape = shapes[k]
  if shape == INSTANT then return digits(highs[k], lows[k]) end
  if shape == WINDOWS then return format('%d:%d:%d', highs[k], lows[k], currents[k]) end
  return ''
end

-- When the excess of a counter was forgiven, if that was within the last minute.
local function stamp_of(k)
  local stamp = stamps[k]
  if stamp and now_ms - stamp < FORGIVENESS_MS and stamp - now_ms < FORGIVENESS_MS then return stamp end
end

-- Writes a counter as Redis stores it. A stamp outlives the debt, so that no other is forgiven early;
-- a full counter with a stamp is an instant in the past.
local function store(k, life_ms)
  local value, stamp = text(k), stamp_of(k)
  if paces[k] and value ~= '' then value = value .. '@' .. paces[k] end
  if stamp then
    value = (value == '' and '0' or value) .. format('!%d', stamp)
    life_ms = max(life_ms, stamp + FORGIVENESS_MS - now_ms + 2)
  end
  call('SET', KEYS[k], value, 'PX', format('%d', life_ms + grace_ms))
end
