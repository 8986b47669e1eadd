//! Every store answers as the transcripts say.

use tollgate::conformance::{self, ReferenceStore};
use tollgate::{LocalOptions, LocalStore};

#[tokio::test]
async fn the_pure_code_plays_every_transcript() {
    if let Err(failure) = conformance::run(ReferenceStore::new).await {
        panic!("{failure}");
    }
}

#[tokio::test]
async fn the_local_store_plays_every_transcript() {
    if let Err(failure) = conformance::run(|| LocalStore::new(LocalOptions::default())).await {
        panic!("{failure}");
    }
}
