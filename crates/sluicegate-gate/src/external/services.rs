//! The limits service across reloads: kept, with all it remembers, while its settings stay the same.

use std::sync::{Arc, Mutex};

use sluicegate::RedisStore;
use sluicegate_config::ExternalSettings;
use tokio::runtime::Handle;

use super::External;
use crate::store::{AnyStore, redis_store};

/// Makes the client of the limits service that a configuration names.
pub(crate) struct Externals {
    background: Handle,
    /// The store's Redis, where answers are cached unless the configuration names another one.
    store: Option<Arc<RedisStore>>,
    last: Mutex<Option<(Setup, External)>>,
}

/// The settings and the content of the file of authorities: with another content it is another
/// service.
type Setup = (ExternalSettings, Option<Vec<u8>>);

impl Externals {
    /// Calls are made on `background`, so that they outlive the request that needed them.
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

    /// The service that a configuration names. With unchanged settings it is the same one as
    /// before, with its cache, breakers and calls in flight.
    pub(crate) fn service(
        &self,
        settings: Option<&ExternalSettings>,
    ) -> Result<Option<External>, Vec<String>> {
        let Some(settings) = settings else {
            return Ok(None);
        };
        let authorities = settings.service.at().ca_file.as_ref();
        let authorities = authorities.and_then(|file| std::fs::read(file).ok());
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
