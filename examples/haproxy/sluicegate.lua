-- Asks Sluicegate for a decision about a request. On 200 the request is forwarded; any other response goes to the client.

local URL = "http://sluicegate/v1/authorize/forward-auth"

-- Client headers that are part of a key or hold credentials. X-Forwarded-* is never copied from the client.
local PASSED_ON = { "authorization", "x-api-key" }

-- Response headers that belong to the connection and are not copied.
local NOT_COPIED = { ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["x-answered"] = true }

local function decision_headers(txn)
    local headers = {
        ["x-forwarded-method"] = { txn.sf:method() },
        ["x-forwarded-uri"] = { txn.sf:pathq() },
        ["x-forwarded-host"] = { txn.sf:req_fhdr("host") },
        ["x-forwarded-for"] = { txn.sf:src() },
    }
    for _, name in ipairs(PASSED_ON) do
        local value = txn.sf:req_fhdr(name)
        if value ~= "" then
            headers[name] = { value }
        end
    end
    return headers
end

local function reject(txn, response)
    local reply = txn:reply({ status = response.status, body = response.body })
    for name, values in pairs(response.headers) do
        if not NOT_COPIED[name] then
            for _, value in pairs(values) do
                reply:add_header(name, value)
            end
        end
    end
    txn:done(reply)
end

core.register_action("sluicegate", { "http-req" }, function(txn)
    local client = core.httpclient()
    local response = client:get({ url = URL, dst = "abns@sluicegate", headers = decision_headers(txn), timeout = 2000 })
    if not response.headers or not response.headers["x-answered"] then
        txn:set_var("txn.sluicegate_away", true)
    elseif response.status ~= 200 then
        reject(txn, response)
    elseif response.headers["ratelimit"] then
        txn:set_var("txn.sluicegate_ratelimit", response.headers["ratelimit"][0])
    end
end)
