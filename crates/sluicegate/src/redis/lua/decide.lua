-- Main part of the decide script: decides many requests in one call. Each request is all or
-- nothing, and sees what the requests before it have left.
-- KEYS    the counters, each once, in the order of their first use
-- ARGV[1] the clock, see time.lua
-- ARGV[2] and on, the requests: [*<number of charges>] { [@<index of the key>] charge }
--   t<tolerance_ns>:<needed_ns>                      token bucket
--   d<interval_ms>:<drip>:<size>:<aligned>:<cost>    leaky bucket; fixed window if aligned is 1
--   w<window_ms>:<limit>:<cost>                      sliding window
--   The letter is a capital when the charge is not enforced. * is left out for a single charge,
--   and @ for a key that was not used before.
-- returns the time, then an answer for each charge: the debt after for a token bucket, or
--   -1 - debt when denied; + or - and the state after for the others; ! and the reason for a key
--   that is not ours

local tolerances, needs = {}, {}
local decide_request, key
local last = #ARGV
if early ~= nil then
  shapes[1], highs[1], lows[1], currents[1] = parse(early)
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
    else
      answers[answered] = charge_token_bucket(k, tolerances[argument], needed)
    end
  else
    local kind = byte(argument)
    local follows = byte(ARGV[position + 1] or '')
    if kind == 116 or kind == 84 then -- 't', 'T': read once, because most charges of a call are alike
      local tolerance, needed = match(argument, '^%a(%d+):(%-?%d+)$')
      tolerances[argument], needs[argument] = tolerance + 0, needed + 0
    elseif kind == 64 and (follows == 116 or follows == 84) then -- '@'
      key = sub(argument, 2) + 0
      position = position + 1
    else
      local size = 1
      if kind == 42 then -- '*'
        size = sub(argument, 2) + 0
        position = position + 1
      end
      decide_request = decide_request or build_decide_request()
      decide_request(size)
    end
  end
end

-- Everything is decided. An error before this line has written nothing, and a reason to refuse a
-- write (no memory, no permission) refuses the first one.
for k = 1, #KEYS do
  local life_ms = lives[k]
  if life_ms then call('SET', KEYS[k], text(k), 'PX', format('%d', life_ms + grace_ms)) end
end
return answers
