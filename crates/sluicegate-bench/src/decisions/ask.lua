-- Asks about one of many keys, by chance.
local headers = { ["Content-Type"] = "application/json" }
function request()
  return wrk.format("POST", nil, headers, '<before>k' .. math.random(1, <keys>) .. '<after>')
end
