//! Credentials: API keys, tokens, and both.

mod credential_files;
mod signer;

mod api_keys;
mod both;
mod confusion;
mod fuzz;
mod jwks_url;
mod key_sets;
mod shown_credentials;
mod tokens;
