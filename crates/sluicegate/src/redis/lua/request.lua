-- Part of the decide script: decides one request of several charges, or of one that is no token
-- bucket, all or nothing. Reads ARGV from the current position; adds to answers.

-- Undoes the changes to a counter.
local function restore(k, before)
  shapes[k], highs[k], lows[k], currents[k], lives[k] = before[1], before[2], before[3], before[4], before[5]
  paces[k], stamps[k] = before[6], before[7]
end

-- The state of a counter, for restore.
local function saved(k)
  return {
    shapes[k], highs[k] or false, lows[k] or false, currents[k] or false, lives[k] or false,
    paces[k] or false, stamps[k] or false,
  }
end

-- Decides one charge on a counter of its own pace. Returns whether it is allowed, and its answer;
-- nothing for a token bucket that owes far more than it can.
local function decide_own(k, charge)
  if charge.algorithm == 't' then
    local answer = charge_token_bucket(k, charge.tolerance, charge.needed)
    if not answer then return end
    return answer >= 0, answer
  end
  local allowed
  if charge.algorithm == 'd' then
    allowed = drip_decide(k, charge.bucket, charge.cost)
  else
    allowed = windows_decide(k, charge.window_ms, charge.limit, charge.cost)
  end
  return allowed, (allowed and '+' or '-') .. text(k)
end

-- Decides one charge on a counter of another pace, as if it had been written at that of the charge. A
-- look, and a cost that never fits, leave it as it is.
local function decide_changed(k, charge, pace)
  local before = saved(k)
  local exceeds, kept = convert(k, charge, pace)
  if kept then return charge.cost == 0, (charge.cost == 0 and '+' or '-') .. text(k) .. '@' .. pace end
  local allowed, answer = decide_own(k, charge)
  if charge.cost == 0 or charge.cost > charge.limit then
    answer = (allowed and '?+' or '?-') .. text(k)
    restore(k, before)
  elseif exceeds and not charge.digits_only then
    stamps[k] = now_ms
  end
  return allowed, answer
end

-- Decides one charge. Returns whether it is allowed, and its answer.
local function decide_charge(k, charge)
  local pace = other_pace(k, charge)
  if pace then return decide_changed(k, charge, pace) end
  local allowed, answer = decide_own(k, charge)
  if not answer then return decide_changed(k, charge, charge.pace) end
  return allowed, answer
end

-- The charge of nothing in place of one that is not spent.
local function look_of(charge)
  local look = charge.look
  if not look then
    look = {}
    for name, value in pairs(charge) do look[name] = value end
    look.cost, look.needed = 0, 0
    charge.look = look
  end
  return look
end

-- The answer to a charge that is not spent: that of a look.
local function look(k, charge)
  local _, answer = decide_charge(k, look_of(charge))
  return answer
end

-- Index of the key of the next charge: the next new one, unless an @ before the charge names
-- another.
local function read_key()
  local named = match(ARGV[position], '^@(%d+)$')
  if named then
    position = position + 1
    return named + 0
  end
  next_key = next_key + 1
  return next_key - 1
end

local function decide_request(size)
  local keys, asked, failure = {}, {}, nil
  for i = 1, size do
    local k = read_key()
    keys[i], asked[i] = k, read_charge(ARGV[position])
    position = position + 1
    if (shapes[k] or load(k)) == FOREIGN then failure = '!' .. highs[k] end
  end
  if failure then
    for i = 1, size do answers[answered + i] = failure end
    answered = answered + size
    return
  end

  local goes_on, fits, taken = true, {}, {}
  for i = 1, size do
    local k = keys[i]
    local before = saved(k)
    local allowed, answer = decide_charge(k, asked[i])
    answers[answered + i], fits[i] = answer, allowed
    if allowed and asked[i].looks then
      restore(k, before)
      answers[answered + i] = look(k, asked[i])
    elseif allowed then
      taken[k] = taken[k] or before
    else
      -- A denial may repair a stored value, but must not undo an earlier charge of this request.
      if taken[k] then restore(k, before) end
      if asked[i].enforced then goes_on = false end
    end
  end
  if not goes_on then
    for k, before in pairs(taken) do restore(k, before) end
    for i = 1, size do
      -- Another charge was denied, so this one is not spent.
      if fits[i] then answers[answered + i] = look(keys[i], asked[i]) end
    end
  end
  answered = answered + size
end

-- Decides a request of one charge. Returns its answer.
local function decide_alone(k, encoded)
  local _, answer = decide_charge(k, read_charge(encoded))
  return answer
end

return decide_request, decide_alone
