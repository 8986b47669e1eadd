//! Limits whose quota comes from outside: the service is asked before anything is charged.
//!
//! Every front door comes through here; without such limits it costs one look at a field.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock, Mutex};

use futures_util::future::join_all;
use http::HeaderMap;
use sluicegate::{RedisStore, ResetError, StoreError, Verdict};
use sluicegate_config::ExternalSettings;
use sluicegate_core::{Charge, Decision, FailurePolicy, List, Nanos, QuotaSource, Stage, Subject};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::access::Ruling;
use crate::external::{External, ExternalLimits, LimitsLookup, ResolvedLimits};
use crate::file_hash;
use crate::live::{Gate, Live};
use crate::operator::{Looked, Orders, for_a_look, met};
use crate::store::{AnyStore, redis_store};

/// The service, kept as long as it is configured in the same way.
pub(crate) struct Outside {
    background: Handle,
    /// The store's Redis, if it is one.
    store: Option<Arc<RedisStore>>,
    last: Mutex<Option<(Setup, External)>>,
}

/// The service as it is configured, and what the file of its authorities holds: with other ones it is another service.
type Setup = (ExternalSettings, Option<[u8; 32]>);

impl Outside {
    pub(crate) fn new(background: Handle, store: &AnyStore) -> Self {
        let store = match store {
            AnyStore::Redis(store) => Some(Arc::clone(store)),
            AnyStore::Local(_) => None,
        };
        Self {
            background,
            store,
            last: Mutex::new(None),
        }
    }

    /// The service that a configuration names, with all that is remembered of it.
    pub(crate) fn external(
        &self,
        settings: Option<&ExternalSettings>,
    ) -> Result<Option<External>, Vec<String>> {
        let Some(settings) = settings else {
            return Ok(None);
        };
        let authorities = settings
            .service
            .at()
            .ca_file
            .as_ref()
            .and_then(|file| file_hash::sha256_of(file).ok());
        let setup = (settings.clone(), authorities);
        let mut last = self.last.lock().expect("no holder of this lock panics");
        if let Some((_, external)) = last.as_ref().filter(|(known, _)| *known == setup) {
            return Ok(Some(external.clone()));
        }
        let cache = match &settings.cache_redis {
            Some(redis) => Some(Arc::new(redis_store(redis, "external.cache_redis")?)),
            None => self.store.clone(),
        };
        let external = External::new(settings, cache, self.background.clone())
            .map_err(|mistake| vec![mistake])?;
        *last = Some((setup, external.clone()));
        Ok(Some(external))
    }
}

/// The request that charges are made for, as far as the service is told about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnBehalf<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a HeaderMap,
}

impl<'a> OnBehalf<'a> {
    /// What the service is asked about the caller of a charge.
    fn question(&self, charge: &Charge<'a>, key: &'a str) -> LimitsLookup<'a> {
        let Self {
            method,
            path,
            headers,
        } = *self;
        LimitsLookup {
            limit: &charge.key.limit().name,
            key,
            method,
            path,
            headers,
        }
    }
}

impl OnBehalf<'static> {
    /// Of somebody who asks about a counter, and says nothing about a request.
    pub(crate) fn nobody() -> Self {
        static NO_HEADERS: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
        Self {
            method: "",
            path: "",
            headers: &NO_HEADERS,
        }
    }
}

/// A verdict, and what the service said about the caller besides numbers.
pub(crate) struct Ruled {
    pub(crate) verdict: Verdict,
    pub(crate) told: Option<Arc<ExternalLimits>>,
}

impl Gate {
    /// Charges a request to the limits of one stage, all or nothing.
    pub(crate) async fn check(
        &self,
        live: &Live,
        stage: Stage,
        subject: &Subject<'_>,
        headers: &HeaderMap,
        cost: u64,
    ) -> Ruled {
        let charges = match live.policy.charges_at(stage, subject, cost) {
            Ok(charges) => charges,
            Err(missing) => return Ruled::alone(Verdict::Unidentified(missing)),
        };
        let Some(external) = &live.external else {
            return Ruled::alone(self.take(live, &charges, Unlimited::LeftOut).await);
        };
        let request = OnBehalf {
            method: subject.method,
            path: subject.path,
            headers,
        };
        let asked = match Asked::at_once(external, &charges, &request) {
            Some(asked) => asked,
            // In a box: most requests need no room for this.
            None => Box::pin(Asked::ask(external, &charges, &request)).await,
        };
        let verdict = self
            .take(live, &asked.limited(&charges), Unlimited::LeftOut)
            .await;
        Ruled {
            verdict,
            told: asked.told(),
        }
    }

    /// Takes charges, all or nothing. Each has its outcome in the same place: one that the service does not limit is
    /// looked at only.
    pub(crate) async fn decide(&self, live: &Live, charges: &[Charge<'_>]) -> Verdict {
        match &live.external {
            None => self.take(live, charges, Unlimited::LookedAt).await,
            Some(external) => {
                let asked = Asked::ask(external, charges, &OnBehalf::nobody()).await;
                self.take(live, &asked.each(charges), Unlimited::LookedAt)
                    .await
            }
        }
    }

    /// Takes charges under what operators have ordered, and lets those who watch know.
    #[inline]
    async fn take(&self, live: &Live, charges: &[Charge<'_>], unlimited: Unlimited) -> Verdict {
        let under_orders: List<Charge<'_>>;
        let charges = match self.standing.with_overrides() {
            None => charges,
            Some(orders) => {
                let charges = charges
                    .iter()
                    .filter_map(|charge| ordered(*charge, &orders, unlimited));
                under_orders = charges.collect();
                &under_orders
            }
        };
        let verdict = self.limiter.decide(&live.policy, charges).await;
        if let Some(decision) = verdict.decision() {
            self.saw(charges, decision);
        }
        verdict
    }

    /// Leaves marks for those who want to know who asks.
    fn saw(&self, charges: &[Charge<'_>], decision: &Decision) {
        let mut outcomes = decision.outcomes().map(|(_, charged)| charged).peekable();
        for charge in charges {
            // In their order, but without those that went unchecked.
            let Some(charged) =
                outcomes.next_if(|charged| charged.limit_index == charge.limit_index)
            else {
                continue;
            };
            if charge.cost > 0 {
                self.crowd.saw(&charge.key, !charged.outcome.is_allowed());
                self.feed.saw(charge, &charged.outcome);
            }
        }
    }

    /// What holds for a charge and what it would meet; nothing is taken, and nobody is told.
    pub(crate) async fn look(
        &self,
        live: &Live,
        charge: Charge<'_>,
        request: &OnBehalf<'_>,
    ) -> Looked {
        let charges = [charge];
        let asked = match &live.external {
            None => Asked(List::One(None)),
            Some(external) => Asked::ask(external, &charges, request).await,
        };
        let told = asked.0.iter().next().and_then(Option::as_deref);
        let mut charge = under(charge, told);
        let (mut quota, mut quota_from) = match told {
            None => (Some(charge.quota), "config"),
            Some(told) => (told.quota, "external"),
        };
        if let Some((ordered, _)) = self.standing.orders().of_charge(&charge) {
            (quota, quota_from) = (ordered, "override");
        }
        let key = charge.key.to_string();
        let Some(in_force) = quota else {
            let nobody_asked = Err(StoreError::Unavailable("there is no limit".to_owned()));
            return Looked {
                quota,
                quota_from,
                key,
                met: nobody_asked,
            };
        };
        charge.quota = in_force;
        let met = met(&self.limiter.decide(&live.policy, &for_a_look(charge)).await);
        Looked {
            quota,
            quota_from,
            key,
            met,
        }
    }

    /// What lists and operators say about an address; a ban comes before everything else.
    pub(crate) fn ruling_of_address(&self, live: &Live, address: IpAddr) -> Option<Ruling> {
        let banned = self
            .standing
            .with_bans()
            .and_then(|orders| orders.bans().of_address(address));
        banned.or_else(|| live.access.of_address(address))
    }

    /// What lists and operators say about whoever has this address and is this principal.
    pub(crate) fn ruling_of_caller(&self, live: &Live, subject: &Subject<'_>) -> Option<Ruling> {
        let (address, principal) = (
            subject.client_ip,
            subject.principal.map(|known| known.id.as_str()),
        );
        let banned = self
            .standing
            .with_bans()
            .and_then(|orders| orders.bans().of_caller(address, principal));
        banned.or_else(|| live.access.of_caller(address, principal))
    }

    /// What lists and operators say about a principal.
    pub(crate) fn ruling_of_principal(&self, live: &Live, id: &str) -> Option<Ruling> {
        let banned = self
            .standing
            .with_bans()
            .and_then(|orders| orders.bans().of_principal(id));
        banned.or_else(|| live.access.of_principal(id))
    }

    /// Gives back the units of charges that were drawn `age` ago.
    pub(crate) async fn give_back(
        &self,
        live: &Live,
        charges: &[Charge<'_>],
        age: Nanos,
    ) -> Verdict {
        match &live.external {
            None => self.limiter.give_back(&live.policy, charges, age).await,
            Some(external) => {
                let asked = Asked::ask(external, charges, &OnBehalf::nobody()).await;
                self.limiter
                    .give_back(&live.policy, &asked.each(charges), age)
                    .await
            }
        }
    }

    /// Forgets the counters of charges.
    pub(crate) async fn forget(
        &self,
        live: &Live,
        charges: &[Charge<'_>],
    ) -> Result<(), ResetError> {
        match &live.external {
            None => self.limiter.forget(charges).await,
            Some(external) => {
                let asked = Asked::ask(external, charges, &OnBehalf::nobody()).await;
                self.limiter.forget(&asked.each(charges)).await
            }
        }
    }
}

/// What becomes of a charge without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unlimited {
    /// Nobody asks for its outcome.
    LeftOut,
    /// Its outcome has a place, and nothing is taken.
    LookedAt,
}

/// A charge under an operator's order, if there is one.
fn ordered<'a>(
    mut charge: Charge<'a>,
    orders: &Orders,
    unlimited: Unlimited,
) -> Option<Charge<'a>> {
    match orders.of_charge(&charge).map(|(quota, _)| quota) {
        None => {}
        Some(Some(quota)) => charge.quota = quota,
        Some(None) if unlimited == Unlimited::LeftOut => return None,
        Some(None) => charge.cost = 0,
    }
    Some(charge)
}

impl Ruled {
    fn alone(verdict: Verdict) -> Self {
        Self {
            verdict,
            told: None,
        }
    }
}

/// What the service said about each of some charges, in their order; `None` where the limit's own quota holds.
struct Asked(List<Option<Arc<ExternalLimits>>>);

impl Asked {
    /// Without waiting, if this process knows all of it.
    fn at_once(
        external: &External,
        charges: &[Charge<'_>],
        request: &OnBehalf<'_>,
    ) -> Option<Self> {
        let now = Instant::now();
        let mut told = List::Empty;
        for charge in charges {
            told.push(match charge.key.limit().quota_from {
                QuotaSource::Limit => None,
                QuotaSource::External => {
                    let key = charge.key.caller();
                    of_known(external.resolve_cached(&request.question(charge, &key), now)?)
                }
            });
        }
        Some(Self(told))
    }

    /// All at the same time: together they take no longer than the slowest.
    async fn ask(external: &External, charges: &[Charge<'_>], request: &OnBehalf<'_>) -> Self {
        let ask = async |charge: &Charge<'_>| {
            if charge.key.limit().quota_from == QuotaSource::Limit {
                return None;
            }
            let key = charge.key.caller();
            of_known(external.resolve(request.question(charge, &key)).await)
        };
        Self(match charges {
            [charge] => List::One(ask(charge).await),
            charges => List::Many(join_all(charges.iter().map(ask)).await),
        })
    }

    /// The charges under what was said, without those that are not limited.
    fn limited<'a>(&'a self, charges: &[Charge<'a>]) -> List<Charge<'a>> {
        let charges = charges.iter().zip(self.0.iter());
        let is_limited = |told: &Option<Arc<ExternalLimits>>| {
            told.as_ref().is_none_or(|told| told.quota.is_some())
        };
        charges
            .filter(|(_, told)| is_limited(told))
            .map(|(charge, told)| under(*charge, told.as_deref()))
            .collect()
    }

    /// The charges under what was said, each in its place.
    fn each<'a>(&'a self, charges: &[Charge<'a>]) -> List<Charge<'a>> {
        charges
            .iter()
            .zip(self.0.iter())
            .map(|(charge, told)| under(*charge, told.as_deref()))
            .collect()
    }

    /// The first answer that says more than numbers.
    fn told(&self) -> Option<Arc<ExternalLimits>> {
        let says_more =
            |told: &&Arc<ExternalLimits>| told.backend.is_some() || told.request_timeout.is_some();
        self.0.iter().flatten().find(says_more).cloned()
    }
}

fn of_known(known: ResolvedLimits) -> Option<Arc<ExternalLimits>> {
    match known {
        ResolvedLimits::External(told) => Some(told),
        ResolvedLimits::Configured => None,
    }
}

/// A charge under what was said about its caller.
fn under<'a>(mut charge: Charge<'a>, told: Option<&'a ExternalLimits>) -> Charge<'a> {
    let Some(told) = told else { return charge };
    match told.quota {
        Some(quota) => charge.quota = quota,
        None => charge.cost = 0,
    }
    if let Some(tenant) = &told.tenant {
        charge.key = charge.key.of_tenant(tenant);
    }
    charge.on_failure = told.on_failure.or(charge.on_failure);
    if let (Some(FailurePolicy::Closed(status)), Some(own)) =
        (&mut charge.on_failure, told.failure_status)
    {
        *status = own;
    }
    charge
}

#[cfg(test)]
mod tests {
    use sluicegate_core::{FailureStatus, Key, Limit, Quota};

    use super::*;

    fn told(quota: Option<Quota>) -> ExternalLimits {
        ExternalLimits {
            quota,
            tenant: None,
            on_failure: None,
            failure_status: None,
            backend: None,
            request_timeout: None,
            is_stale: false,
        }
    }

    fn charge<'a>(limit: &'a Limit, parts: &'a [&'a str]) -> Charge<'a> {
        let key = Key::of_parts(limit, parts).unwrap();
        let quota = limit.quota.unwrap();
        Charge {
            key,
            quota,
            cost: 3,
            limit_index: 0,
            enforced: true,
            on_failure: Some(FailurePolicy::Open),
        }
    }

    fn status(code: u16) -> FailureStatus {
        FailureStatus::new(code).unwrap()
    }

    #[test]
    fn what_was_said_takes_the_place_of_the_limits_own() {
        let limit = Limit::per_client("l", Quota::per_second(1)).quota_from_outside();
        let own = charge(&limit, &["203.0.113.7"]);
        let quota = Quota::from(Quota::per_second(9).burst(9));
        let asked = Asked(List::One(Some(Arc::new(ExternalLimits {
            tenant: Some("acme".to_owned()),
            on_failure: Some(FailurePolicy::Closed(status(503))),
            failure_status: Some(status(429)),
            ..told(Some(quota))
        }))));
        let charges = [own];
        let [under] = &asked.limited(&charges)[..] else {
            panic!("one charge")
        };
        assert_eq!(
            (under.quota, under.cost, under.key.to_string()),
            (quota, 3, "l:!tenant:acme".to_owned())
        );
        assert_eq!(under.on_failure, Some(FailurePolicy::Closed(status(429))));
    }

    #[test]
    fn whoever_is_not_limited_is_not_charged() {
        let limit = Limit::per_client("l", Quota::per_second(1)).quota_from_outside();
        let charges = [
            charge(&limit, &["203.0.113.7"]),
            charge(&limit, &["203.0.113.8"]),
        ];
        let asked = Asked(List::Many(vec![Some(Arc::new(told(None))), None]));
        let limited = asked.limited(&charges);
        assert_eq!(
            limited
                .iter()
                .map(|charge| charge.key.to_string())
                .collect::<Vec<_>>(),
            ["l:203.0.113.8"]
        );
        let each = asked.each(&charges);
        assert_eq!(
            [each[0].cost, each[1].cost],
            [0, 3],
            "in its place, and looked at only"
        );
    }

    #[test]
    fn a_code_alone_changes_no_policy() {
        let limit = Limit::per_client("l", Quota::per_second(1)).quota_from_outside();
        let own = charge(&limit, &["203.0.113.7"]);
        let said = ExternalLimits {
            failure_status: Some(status(429)),
            ..told(Some(own.quota))
        };
        assert_eq!(
            under(own, Some(&said)).on_failure,
            Some(FailurePolicy::Open)
        );
        let closed = Charge {
            on_failure: Some(FailurePolicy::Closed(status(503))),
            ..own
        };
        assert_eq!(
            under(closed, Some(&said)).on_failure,
            Some(FailurePolicy::Closed(status(429)))
        );
        assert_eq!(
            under(closed, None).on_failure,
            Some(FailurePolicy::Closed(status(503)))
        );
    }
}
