-- Asks Sluicegate about a request: it goes on with 200, and anything else is the answer to the client.

local QUESTION = "http://sluicegate/v1/authorize/forward-auth"

-- Headers of the client that are part of a key or hold its credentials. What it says about itself in
-- X-Forwarded-* is not among them.
local PASSED_ON = { "authorization", "x-api-key" }

-- Headers of an answer that concern the connection it came on.
local NOT_COPIED = { ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["x-answered"] = true }

local function question(txn)
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

local function refuse(txn, answer)
    local reply = txn:reply({ status = answer.status, body = answer.body })
    for name, values in pairs(answer.headers) do
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
    local answer = client:get({ url = QUESTION, dst = "abns@sluicegate", headers = question(txn), timeout = 2000 })
    if not answer.headers or not answer.headers["x-answered"] then
        txn:set_var("txn.sluicegate_away", true)
    elseif answer.status ~= 200 then
        refuse(txn, answer)
    elseif answer.headers["ratelimit"] then
        txn:set_var("txn.sluicegate_ratelimit", answer.headers["ratelimit"][0])
    end
end)
