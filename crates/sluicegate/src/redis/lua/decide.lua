-- Main part of the decide script: decides many requests in one call. Each request is all or
-- nothing, and sees what the requests before it have left.
-- KEYS    the counters, each once, in the order of their first use
-- ARGV[1] the clock, see time.lua
-- ARGV[2] and on, the requests: [*<number of charges>] { [@<index of the key>] charge }
--   t<interval_ns>:<burst>:<cost>                    token bucket
--   d<interval_ms>:<drip>:<size>:<aligned>:<cost>    leaky bucket; fixed window if aligned is 1
--   w<window_ms>:<limit>:<cost>                      sliding window
--   The letter is a capital when the charge is not enforced, and behind a ? when it only looks: such a
--   charge is denied like any other and never spent. * is left out for a single charge,
--   and @ for a key that was not used before. Behind a charge may be @ and the base pace of its
--   limit, at which values without a mark were written, where the charge has another pace; then ~
--   where the value may hold digits only.
-- returns the time, then an answer for each charge: the debt after for a token bucket, or
--   -1 - debt when denied; + or - and the state after for the others; ?+ or ?- and the state for a
--   look at a counter of another pace, which is not stored like that; + or -, the state, @ and its
--   pace for a counter that owes more than its limit since that was changed, or because others
--   charge it under a larger one; ! and the reason for a key that is not ours

local tolerances, needs = {}, {}
local decide_request, decide_alone, key
local last = #ARGV
if early ~= nil then
  shapes[1], highs[1], lows[1], currents[1], paces[1], stamps[1] = parse(early)
end
answers[1] = digits(now_ms, now_ns)
while position <= last do
  local argument = ARGV[position]
  local needed = needs[argument]
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
    elseif paces[k] then
      if not decide_alone then decide_request, decide_alone = build_decide_request() end
      answers[answered] = decide_alone(k, argument)
    else
      local answer = charge_token_bucket(k, tolerances[argument], needed)
      if not answer then
        if not decide_alone then decide_request, decide_alone = build_decide_request() end
        answer = decide_alone(k, argument)
      end
      answers[answered] = answer
    end
  else
    local kind = byte(argument)
    local follows = byte(ARGV[position + 1] or '')
    local interval, burst, cost
    if kind == 116 or kind == 84 then interval, burst, cost = match(argument, '^%a(%d+):(%d+):(%d+)~?$') end
    if interval then -- 't', 'T': read once, because most charges of a call are alike
      tolerances[argument], needs[argument] = token_bucket_numbers(interval + 0, burst + 0, cost + 0)
    elseif kind == 64 and (follows == 116 or follows == 84) then -- '@'
      key = sub(argument, 2) + 0
      position = position + 1
    else
      local size = 1
      -- The charge has a base pace, so the general part reads the @ before it again.
      if key then position, key = position - 1, nil end
      if kind == 42 then -- '*'
        size = sub(argument, 2) + 0
        position = position + 1
      end
      if not decide_request then decide_request, decide_alone = build_decide_request() end
      decide_request(size)
    end
  end
end

-- Everything is decided. An error before this line has written nothing, and a reason to refuse a
-- write (no memory, no permission) refuses the first one.
for k = 1, #KEYS do
  local life_ms = lives[k]
  if life_ms then store(k, life_ms) end
end
return answers
