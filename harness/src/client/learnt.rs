//! Facts about a driver that are found out once, for all checks.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use csi_proto::lock::Mutex;
use tokio::sync::OnceCell;

use crate::config::AccessType;
use crate::spec::verdict::Stop;

type Fact = Arc<dyn Any + Send + Sync>;
/// The key of a fact: its type, and the access type that it holds for.
type Key = (TypeId, AccessType);

/// Facts by their type and by the access that they hold for.
#[derive(Default)]
pub(crate) struct ProbeCache(Mutex<HashMap<Key, Arc<OnceCell<Fact>>>>);

impl fmt::Debug for ProbeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProbeCache")
    }
}

impl ProbeCache {
    /// The fact of this type. The first one who asks finds it out, and others wait for that; where it cannot be found out,
    /// the next one tries.
    pub(crate) async fn get<T: Any + Send + Sync>(
        &self,
        access: AccessType,
        find: impl Future<Output = Result<T, Stop>>,
    ) -> Result<Arc<T>, Stop> {
        let cell = {
            let mut facts = self.0.lock();
            facts.entry((TypeId::of::<T>(), access)).or_default().clone()
        };
        let found = async { Ok::<Fact, Stop>(Arc::new(find.await?)) };
        let fact = cell.get_or_try_init(|| found).await?.clone();
        fact.downcast().map_err(|_| Stop::broken("a fact has the type of another one"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fact_is_found_out_once_for_each_access() {
        let learnt = ProbeCache::default();
        let ask = |access, number: u8| learnt.get(access, async move { Ok(number) });
        let fails = learnt.get::<u8>(AccessType::Mount, async { Err(Stop::skip("not now")) });
        assert!(fails.await.is_err());
        let (one, other) = tokio::join!(ask(AccessType::Mount, 1), ask(AccessType::Mount, 2));
        assert_eq!((one.ok().as_deref(), other.ok().as_deref()), (Some(&1), Some(&1)));
        assert_eq!(ask(AccessType::Block, 3).await.ok().as_deref(), Some(&3));
    }
}
