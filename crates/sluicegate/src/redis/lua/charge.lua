local charges = {}

-- A charge in words: its machine, whether it is enforced, its numbers and its cost.
local function read_charge(words)
  local charge = charges[words]
  if charge then return charge end
  local machine, a, b, c, d, e = match(words, '^(%a)(%d+):(%-?%d+):?(%d*):?(%d*):?(%d*)$')
  charge = { enforced = machine ~= machine:upper(), machine = machine:lower() }
  if charge.machine == 't' then
    charge.tolerance, charge.needed = a + 0, b + 0
  elseif charge.machine == 'd' then
    charge.bucket = { interval_ms = a + 0, drip = b + 0, size = c + 0, aligned = d == '1' }
    charge.cost = e + 0
  else
    charge.window_ms, charge.limit, charge.cost = a + 0, b + 0, c + 0
  end
  charges[words] = charge
  return charge
end
