//! Names of headers and parameters whose values are secrets.
//!
//! No list is complete, so patterns stand beside it. Both err on the side of secrets: a header that
//! is held back wrongly can be allowed by name, one that was sent cannot be taken back.

/// Headers that hold credentials, by name; those that a pattern finds too are here because they are
/// well known. In lower case.
pub(crate) const SECRET_HEADERS: [&str; 60] = [
    // HTTP itself.
    "authorization",
    "proxy-authorization",
    "www-authenticate",
    "proxy-authenticate",
    "authentication-info",
    "proxy-authentication-info",
    "cookie",
    "cookie2",
    "set-cookie",
    "set-cookie2",
    "dpop",
    // Keys and tokens that many programs know.
    "x-api-key",
    "api-key",
    "apikey",
    "x-apikey",
    "x-auth",
    "x-auth-key",
    "x-auth-token",
    "x-access-token",
    "x-access-key",
    "x-id-token",
    "x-refresh-token",
    "x-session-token",
    "x-session-id",
    "x-csrf-token",
    "x-csrftoken",
    "x-xsrf-token",
    "x-otp",
    "x-signature",
    // Certificates of clients, as proxies pass them on.
    "client-cert",
    "client-cert-chain",
    "x-forwarded-client-cert",
    "x-client-cert",
    "x-ssl-client-cert",
    "ssl-client-cert",
    "x-arr-clientcert",
    "x-amzn-mtls-clientcert",
    // Of single programs and services.
    "cf-access-client-secret",
    "cf-access-jwt-assertion",
    "dd-api-key",
    "deploy-token",
    "job-token",
    "ocp-apim-subscription-key",
    "private-token",
    "x-amz-security-token",
    "x-amzn-oidc-accesstoken",
    "x-amzn-oidc-data",
    "x-consul-token",
    "x-forwarded-access-token",
    "x-functions-key",
    "x-gitlab-token",
    "x-goog-api-key",
    "x-goog-iap-jwt-assertion",
    "x-hub-signature-256",
    "x-ms-token-aad-access-token",
    "x-pomerium-jwt-assertion",
    "x-rapidapi-key",
    "x-shopify-access-token",
    "x-sluicegate-token",
    "x-vault-token",
];

/// Ends of names of headers that hold credentials: `x-any-token`, and `token` itself.
const SECRET_ENDS: [&str; 18] = [
    "accesstoken",
    "access-key",
    "api-key",
    "apikey",
    "assertion",
    "authenticate",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "private-key",
    "secret",
    "secret-key",
    "session-key",
    "token",
];

/// Words that make every name a secret, wherever they stand in it.
const SECRET_WORDS: [&str; 3] = ["authorization", "jwt", "password"];

/// Returns true when a header holds a credential. Case does not matter, and `_` is read as `-`, as
/// many servers do.
pub(crate) fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let ends_with = |end: &&str| {
        name.strip_suffix(*end)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
    };
    SECRET_HEADERS.contains(&name.as_str())
        || SECRET_ENDS.iter().any(ends_with)
        || name.split('-').any(|word| SECRET_WORDS.contains(&word))
}

/// Returns true when a parameter of a URL is likely to hold a credential, by its name or because its
/// value looks random.
pub(crate) fn is_secret_parameter(name: &str, value: &str) -> bool {
    /// Parts of names of such parameters.
    const PARTS: [&str; 13] = [
        "access", "auth", "code", "cred", "jwt", "key", "passw", "pwd", "secret", "session", "sig",
        "token", "user",
    ];
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part)) || looks_random(value)
}

/// Returns true for a long text of letters and digits mixed, such as a key in hexadecimal or
/// base64.
fn looks_random(text: &str) -> bool {
    const LENGTH_MIN: usize = 16;
    let is_encoded = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-%".contains(&byte);
    text.len() >= LENGTH_MIN
        && text.bytes().all(is_encoded)
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_known_by_name_and_by_pattern() {
        for name in SECRET_HEADERS {
            assert!(is_secret_header(name), "{name}");
            assert_eq!(name, name.to_ascii_lowercase());
        }
        for name in [
            "X-Vault-Token",
            "X-Gitlab-Token",
            "X-Goog-Iap-Jwt-Assertion",
            "Cf-Access-Jwt-Assertion",
            "X-Goog-Api-Key",
            "X-Forwarded-Access-Token",
            "X-Session-Token",
            "x-any-token",
            "token",
            "x-any-secret",
            "x-any-api-key",
            "x_api_key",
            "x-any-apikey",
            "x-any-password",
            "x-password-hash",
            "x-original-authorization",
            "x-authorization-code",
            "x-jwt-payload",
            "x-any-jwt",
            "jwt",
            "x-saml-assertion",
            "x-any-cookie",
            "x-aws-secret-key",
        ] {
            assert!(is_secret_header(name), "{name}");
        }
        for name in [
            "accept",
            "host",
            "user-agent",
            "x-tenant-id",
            "x-plan",
            "x-forwarded-for",
            "x-request-id",
            "idempotency-key",
            "x-cache-key",
            "x-ratelimit-limit-tokens",
            "x-token-bucket",
            "x-secretary",
            "x-tokenizer",
            "content-type",
        ] {
            assert!(!is_secret_header(name), "{name}");
        }
    }

    #[test]
    fn parameters_are_secret_by_their_name_or_when_they_look_random() {
        for (name, value) in [
            ("api_key", "x"),
            ("access_token", "x"),
            ("sig", "x"),
            ("X-Amz-Credential", "x"),
            ("password", ""),
            ("v", "9f86d081884c7d659a2feaa0c55ad015"),
            ("a", "dGhpcyBpcyBhIHNlY3JldA1"),
        ] {
            assert!(is_secret_parameter(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("v", "1"),
            ("format", "json"),
            ("region", "eu-central-1"),
            ("p", "abcdefghijklmnopqrstuvwxyz"),
        ] {
            assert!(!is_secret_parameter(name, value), "{name}={value}");
        }
    }
}
