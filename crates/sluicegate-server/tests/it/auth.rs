//! Who is asking.

mod desk;
mod signer;

mod api_keys;
mod both;
mod confusion;
mod fuzz;
mod key_sets;
mod tokens;
