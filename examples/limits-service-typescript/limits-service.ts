// A service that tells Sluicegate the quota of each tenant, from plans in a JSON file.
//
// LIMITS_LISTEN is the address to listen on, LIMITS_PLANS the file with the plans. The file is read
// for every request, so a change counts as soon as Sluicegate asks again.

import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

const LISTEN = process.env.LIMITS_LISTEN ?? "127.0.0.1:8080";
const PLANS = process.env.LIMITS_PLANS ?? "plans.json";
const REQUEST_BYTES_MAX = 128 * 1024;

/** The question about one caller of a limit. */
interface LimitsRequest {
  key: string;
  headers: Record<string, string>;
  method: string;
  path: string;
  key_parts: string[];
}

/** The quota of a caller. Sluicegate's configuration decides about a field that is not said. */
interface LimitsResponse {
  average: number;
  burst?: number;
  period?: string;
  cache_max_age_seconds?: number;
  cache_no_store?: boolean;
  tenant_key?: string;
  failure_policy?: "passThrough" | "failClosed" | "inMemoryFallback";
  failure_code?: number;
  backend_url?: string;
  request_timeout?: string;
  backend_protocol?: "h1" | "h2";
}

/** The file: plans, and the plan of each tenant. Tenants may share a counter. */
interface Plans {
  plans: Record<string, LimitsResponse>;
  tenants: Record<string, { plan: string; tenant_key?: string }>;
}

/** The quota of a tenant; undefined for one that is not known. */
async function limitsOf(tenant: string | undefined): Promise<LimitsResponse | undefined> {
  const { plans, tenants } = JSON.parse(await readFile(PLANS, "utf8")) as Plans;
  if (tenant === undefined || !Object.hasOwn(tenants, tenant)) return undefined;
  const { plan, tenant_key } = tenants[tenant]!;
  if (!Object.hasOwn(plans, plan)) throw new Error(`the plan ${plan} of ${tenant} is not there`);
  return { ...plans[plan]!, ...(tenant_key === undefined ? {} : { tenant_key }) };
}

/** The question in a body; undefined for one that is none. */
async function readQuestion(incoming: IncomingMessage): Promise<LimitsRequest | undefined> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of incoming) {
    length += (part as Buffer).length;
    if (length > REQUEST_BYTES_MAX) return undefined;
    parts.push(part as Buffer);
  }
  try {
    const question: unknown = JSON.parse(Buffer.concat(parts).toString("utf8"));
    const { key, key_parts } = (question ?? {}) as Partial<LimitsRequest>;
    return typeof key === "string" && Array.isArray(key_parts) ? (question as LimitsRequest) : undefined;
  } catch {
    return undefined;
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  if (incoming.method !== "POST" || incoming.url?.split("?")[0] !== "/limits") {
    return send(response, 404, { error: "only POST /limits is here" });
  }
  const question = await readQuestion(incoming);
  if (question === undefined) return send(response, 422, { error: "this is no question of Sluicegate" });
  const limits = await limitsOf(question.key_parts[0]);
  // An unknown tenant has the quota in Sluicegate's own file.
  if (limits === undefined) return send(response, 404, { error: "this tenant is not known" });
  send(response, 200, limits);
}

const server = createServer((incoming, response) => {
  answer(incoming, response).catch((error: unknown) => {
    console.error(error);
    // Sluicegate keeps using the last response.
    if (!response.headersSent) send(response, 503, { error: "no plan could be read" });
  });
});
const colon = LISTEN.lastIndexOf(":");
server.listen(Number(LISTEN.slice(colon + 1)), LISTEN.slice(0, colon), () => {
  console.log(`limits of ${PLANS} at http://${LISTEN}/limits`);
});
