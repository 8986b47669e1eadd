-- Part of the decide and refund scripts: reads a charge, in the form that decide.lua describes.
-- Equal charges are read once.
local charges = {}

-- Returns a table with the algorithm, whether it is enforced, whether it only looks, its numbers, limit, cost and pace, the
-- base pace of its limit if that is another, and whether its value may hold digits only.
local function read_charge(encoded)
  local charge = charges[encoded]
  if charge then return charge end
  local looks, algorithm, a, b, c, d, e, base, digits_only =
    match(encoded, '^(%??)(%a)(%d+):(%d+):(%d+):?(%d*):?(%d*)@?([%w:]*)(~?)$')
  charge = { enforced = algorithm ~= algorithm:upper(), algorithm = algorithm:lower(), looks = looks ~= '' }
  if charge.algorithm == 't' then
    charge.interval, charge.limit, charge.cost = a + 0, b + 0, c + 0
    charge.tolerance, charge.needed = token_bucket_numbers(charge.interval, charge.limit, charge.cost)
    charge.pace = 't' .. a
  elseif charge.algorithm == 'd' then
    charge.bucket = { interval_ms = a + 0, drip = b + 0, size = c + 0, aligned = d == '1' }
    charge.limit, charge.cost = charge.bucket.size, e + 0
    charge.pace = 'd' .. a .. ':' .. b .. ':' .. d
  else
    charge.window_ms, charge.limit, charge.cost = a + 0, b + 0, c + 0
    charge.pace = 'w' .. a
  end
  charge.base = base ~= '' and base or nil
  charge.digits_only = digits_only ~= ''
  charges[encoded] = charge
  return charge
end
