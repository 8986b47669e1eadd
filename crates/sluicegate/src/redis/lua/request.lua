-- Part of the decide script: decides one request of several charges, or of one that is no token
-- bucket, all or nothing. Reads ARGV from the current position; adds to answers.

-- Undoes the changes to a counter.
local function restore(k, before)
  shapes[k], highs[k], lows[k], currents[k], lives[k] = before[1], before[2], before[3], before[4], before[5]
end

-- Decides one charge. Returns whether it is allowed, and its answer.
local function decide_charge(k, charge)
  if charge.algorithm == 't' then
    local answer = charge_token_bucket(k, charge.tolerance, charge.needed)
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

-- The answer to a charge that is not spent: that of a look.
local function look(k, charge)
  if charge.algorithm == 't' then return charge_token_bucket(k, charge.tolerance, 0) end
  return '+' .. text(k)
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

return function(size)
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
    local before = { shapes[k], highs[k] or false, lows[k] or false, currents[k] or false, lives[k] or false }
    local allowed, answer = decide_charge(k, asked[i])
    answers[answered + i], fits[i] = answer, allowed
    if allowed then
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
