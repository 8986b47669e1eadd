//! The scripts in Redis against the pure code: random programs of charges and refunds, run by the
//! same version of Lua that Redis has.

use mlua::{Function, Lua, Table, Value};
use sluicegate::fuzz_internals::{
    ScriptCall, ScriptCharge, ScriptTwin, ScriptValue, script_sources,
};
use sluicegate_core::{Draw, Nanos, Pace, Quota, Timestamp, TokenBucket};

use crate::input::InputBytes;

/// The input is a program: three quotas, the time, and steps.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let Some(mut quotas) = three_quotas(&mut input) else {
        return;
    };
    let bases = quotas.map(|quota| quota.pace());
    let mut now = Timestamp::from_nanos(input.number(1 << 62));
    let mut twin = ScriptTwin::default();
    SCRIPTS.with(|scripts| {
        scripts.clear();
        // Enough for every state, and short enough to be quick.
        for _ in 0..12 {
            if input.is_empty() {
                break;
            }
            step_clock(&mut input, &mut now);
            if input.one_in(8)
                && let Some(quota) = quota_of(&mut input)
            {
                quotas[usize::from(input.below(3))] = quota;
            }
            if input.one_in(5) {
                let mut charge = charge_of(&mut input, &quotas, &bases);
                charge.cost = charge.cost.min(1 << 52);
                let age = input.number(1 << 60);
                let age = Nanos::new(age.min(now.as_nanos()));
                twin.refund(&charge, age, now, |call| scripts.run(1, call));
            } else {
                let requests = requests_of(&mut input, &quotas, &bases);
                twin.decide(&requests, now, |call| scripts.run(0, call));
            }
        }
        for counter in 0..3 {
            let stored = scripts.value(&format!("k{counter}"));
            assert_eq!(stored.as_deref(), twin.value(counter), "k{counter}");
        }
    });
}

fn step_clock(input: &mut InputBytes<'_>, now: &mut Timestamp) {
    let span = Nanos::new(input.number(1 << 50));
    *now = match input.below(8) {
        0 => now.before(span),
        _ => now.after(span),
    };
    if now.as_nanos() > 1 << 62 {
        *now = Timestamp::from_nanos(1 << 62);
    }
}

fn three_quotas(input: &mut InputBytes<'_>) -> Option<[Quota; 3]> {
    let first = quota_of(input)?;
    let second = quota_of(input)?;
    let third = quota_of(input)?;
    Some([first, second, third])
}

fn quota_of(input: &mut InputBytes<'_>) -> Option<Quota> {
    let size = 1 + input.number(1 << 52);
    let span = 1 + input.number(1 << 52);
    let millis = Nanos::from_millis(1 + span % (1 << 42));
    match input.below(5) {
        0 => {
            let burst = 1 + input.number(1 << 30);
            Quota::new(size, Nanos::SECOND, burst).ok()
        }
        1 => TokenBucket::with_interval(Nanos::new(span), size)
            .map(Quota::from)
            .ok(),
        2 => {
            let drip = 1 + input.number(1_000_000);
            Quota::leaky_bucket(size, millis, drip).ok()
        }
        3 => Quota::fixed_window(size, millis).ok(),
        _ => Quota::sliding_window(size, millis).ok(),
    }
}

fn requests_of(
    input: &mut InputBytes<'_>,
    quotas: &[Quota; 3],
    bases: &[Pace; 3],
) -> Vec<Vec<ScriptCharge>> {
    let count = 1 + input.below(3);
    (0..count)
        .map(|_| {
            let charges = 1 + input.below(3);
            let charge = |_| charge_of(input, quotas, bases);
            (0..charges).map(charge).collect()
        })
        .collect()
}

fn charge_of(input: &mut InputBytes<'_>, quotas: &[Quota; 3], bases: &[Pace; 3]) -> ScriptCharge {
    let counter = input.below(3);
    let quota = quotas[usize::from(counter)];
    let choice = input.byte();
    let limit = quota.limit();
    let cost = match choice & 7 {
        0 => 0,
        1..=3 => 1,
        4 => limit,
        5 => limit.saturating_add(1),
        6 => limit / 2,
        _ => input.number(u64::MAX),
    };
    ScriptCharge {
        base: Some(bases[usize::from(counter)]),
        digits_only: choice & 0xc0 == 0xc0,
        enforced: choice & 0x30 != 0x30,
        draw: if choice & 0x0c == 0x0c {
            Draw::Look
        } else {
            Draw::Take
        },
        ..ScriptCharge::new(counter, quota, cost)
    }
}

/// The values that a script returns, and its writes: key, value, milliseconds.
type ScriptEffects = (Vec<ScriptValue>, Vec<[String; 3]>);

/// The scripts in an interpreter, with a table in place of Redis.
struct LuaScripts {
    lua: Lua,
    scripts: [Function; 2],
}

/// The commands that the scripts give. A missing value is `false` in a script of Redis.
const FAKE_REDIS: &str = r#"
-- `values` and `writes` are tables of the caller.
local function call(command, key, value, _, life_ms)
  if command == 'GET' then return values[key] or false end
  if command == 'DEL' then values[key] = nil return 1 end
  if command ~= 'SET' then error('unexpected command ' .. command) end
  values[key] = value
  writes[#writes + 1] = { key, value, life_ms }
end
redis = { call = call, pcall = call }
"#;

thread_local! {
    static SCRIPTS: LuaScripts = LuaScripts::new().expect("the scripts are valid");
}

impl LuaScripts {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new();
        lua.load(FAKE_REDIS).exec()?;
        let [decide, refund] = script_sources();
        let scripts = [
            lua.load(decide).into_function()?,
            lua.load(refund).into_function()?,
        ];
        Ok(Self { lua, scripts })
    }

    fn clear(&self) {
        let empty = self.lua.create_table().expect("a table needs memory only");
        let set = self.lua.globals().set("values", empty);
        set.expect("a global can be set");
    }

    /// Runs a script; returns its values, and what it has written.
    fn run(&self, script: usize, call: ScriptCall) -> ScriptEffects {
        self.try_run(script, call)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_run(&self, script: usize, call: ScriptCall) -> mlua::Result<ScriptEffects> {
        let table = |words: Vec<Vec<u8>>| {
            let words = words.into_iter().map(|word| self.lua.create_string(word));
            self.lua
                .create_sequence_from(words.collect::<mlua::Result<Vec<_>>>()?)
        };
        let globals = self.lua.globals();
        globals.set("KEYS", table(call.keys)?)?;
        globals.set("ARGV", table(call.arguments)?)?;
        globals.set("writes", self.lua.create_table()?)?;
        let returned: Table = self.scripts[script].call(())?;
        let mut values = Vec::new();
        for value in returned.sequence_values::<Value>() {
            values.push(match value? {
                Value::Integer(number) => ScriptValue::Integer(number),
                Value::Number(number) => ScriptValue::Integer(number as i64),
                Value::String(text) => ScriptValue::Text(text.as_bytes().to_vec()),
                other => panic!("a script returned {other:?}"),
            });
        }
        let mut writes = Vec::new();
        for write in globals.get::<Table>("writes")?.sequence_values::<Table>() {
            let write = write?;
            let key = write.get(1)?;
            let value = write.get(2)?;
            let life_ms = write.get(3)?;
            writes.push([key, value, life_ms]);
        }
        Ok((values, writes))
    }

    fn value(&self, key: &str) -> Option<String> {
        let globals = self.lua.globals();
        let values: mlua::Result<Table> = globals.get("values");
        let values = values.expect("a table");
        values.get(key).expect("a text or nothing")
    }
}
