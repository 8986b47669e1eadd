-- Shortcut of the decide script for a call with one charge of a token bucket, which is what goes
-- out when nothing else waits. Mirrors token_bucket.lua without its functions and tables: building
-- those costs more than the decision. Unusual cases fall through to the general part.
-- KEYS[1] the counter
-- ARGV[2] t<interval_ns>:<burst>:<cost>, as in decide.lua; a look falls through, and so does a
--         value with a mark
-- returns the time, then the debt after or -1 - debt, as decide.lua does
local early -- the value that was read, so that the general part need not read it again
if #ARGV == 2 and lag_ns == 0 and now_ms > 0 and now_ms < 2 ^ 43 then
  local interval, burst, cost = match(ARGV[2], '^[tT](%d+):(%d+):([1-9]%d*)~?$')
  if interval then
    early = redis.pcall('GET', KEYS[1])
    local tolerance, needed = burst * interval, cost * interval
    local debt = 0
    if early then
      debt = -1
      if type(early) == 'string' and find(early, '^%d%d%d%d%d%d%d+$') then
        debt = (sub(early, 1, -7) - now_ms) * 1000000 + (sub(early, -6) - now_ns)
        if debt < 0 then debt = 0 end
      end
    end
    local after = debt + needed
    if debt >= 0 and after <= tolerance then
      local whole_ms = floor(after / 1000000)
      local ms, ns = now_ms + whole_ms, now_ns + (after - whole_ms * 1000000)
      if ns >= 1000000 then ms, ns = ms + 1, ns - 1000000 end
      call('SET', KEYS[1], format('%d%06d', ms, ns), 'PX', format('%d', whole_ms + 2 + grace_ms))
      return { format('%d%06d', now_ms, now_ns), after }
    end
    if debt >= 0 and debt <= tolerance + MAX_CLOCK_STEP_MS * 1000000 then
      return { format('%d%06d', now_ms, now_ns), -1 - debt }
    end
  end
end
