-- Part of the decide and refund scripts: reads a charge, in the form that decide.lua describes.
-- Equal charges are read once.
local charges = {}

-- Returns a table with the algorithm, whether it is enforced, its numbers and its cost.
local function read_charge(encoded)
  local charge = charges[encoded]
  if charge then return charge end
  local algorithm, a, b, c, d, e = match(encoded, '^(%a)(%d+):(%-?%d+):?(%d*):?(%d*):?(%d*)$')
  charge = { enforced = algorithm ~= algorithm:upper(), algorithm = algorithm:lower() }
  if charge.algorithm == 't' then
    charge.tolerance, charge.needed = a + 0, b + 0
  elseif charge.algorithm == 'd' then
    charge.bucket = { interval_ms = a + 0, drip = b + 0, size = c + 0, aligned = d == '1' }
    charge.cost = e + 0
  else
    charge.window_ms, charge.limit, charge.cost = a + 0, b + 0, c + 0
  end
  charges[encoded] = charge
  return charge
end
