-- Decides many requests in one call. Each is all or nothing, and sees what those before it have left.
-- KEYS the counters, each once, in the order of their first use
-- ARGV now, then the charges: [*<number of charges in this request>] { [@<key>] charge }
--   charge t<tolerance_ns>:<needed_ns> | d<interval_ms>:<drip>:<size>:<aligned>:<cost> | w<window_ms>:<limit>:<cost>,
--   in capitals when it is not enforced; @ names a key that was used before; * is left out for a single charge
-- returns now, then an answer for each charge: a token bucket's debt after, or -1 - debt when denied;
--   + or - and the state after for the others; ! and what is wrong with a key that is not ours

local tolerances, needs = {}, {}
local decide_request, key
local last = #ARGV
if early ~= nil then
  shapes[1], highs[1], lows[1], currents[1] = parse(early)
end
answers[1] = digits(now_ms, now_ns)
while position <= last do
  local words = ARGV[position]
  local needed = needs[words]
  if needed then
    local k = key
    if not k then
      k = next_key
      next_key = k + 1
    end
    key = nil
    position, answered = position + 1, answered + 1
    if (shapes[k] or load(k)) == FOREIGN then
      answers[answered] = '!' .. highs[k]
    else
      answers[answered] = charge_token_bucket(k, tolerances[words], needed)
    end
  else
    local kind = byte(words)
    local follows = byte(ARGV[position + 1] or '')
    if kind == 116 or kind == 84 then -- 't', 'T': read once, as most charges of a call are alike
      local tolerance, needed = match(words, '^%a(%d+):(%-?%d+)$')
      tolerances[words], needs[words] = tolerance + 0, needed + 0
    elseif kind == 64 and (follows == 116 or follows == 84) then -- '@'
      key = sub(words, 2) + 0
      position = position + 1
    else
      local size = 1
      if kind == 42 then -- '*'
        size = sub(words, 2) + 0
        position = position + 1
      end
      decide_request = decide_request or machines()
      decide_request(size)
    end
  end
end

-- Everything is decided: an error before this line has written nothing, and what can refuse a write refuses the first.
for k = 1, #KEYS do
  local life_ms = lives[k]
  if life_ms then call('SET', KEYS[k], text(k), 'PX', format('%d', life_ms + grace_ms)) end
end
return answers
