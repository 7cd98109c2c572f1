//! What peers may do (`[[access]]`).

use strandline_ops::ConfigErrors;

use super::encryption::{self, Trusted};
use super::{Access, file};
use crate::rules::{Rule, Rules};

/// Checks a table.
pub(super) fn check(
    at: usize,
    access: &file::Access,
    trusted: &Trusted,
    errors: &mut ConfigErrors,
) -> Access {
    let key = |key: &str| format!("access[{at}].{key}");
    let mut rules = |name: &str, texts: &[String]| {
        Rules::new(errors.take_all(&key(name), texts.iter().map(|text| text.parse::<Rule>())))
    };
    let [allow, allow_udp] = [rules("allow", &access.allow), rules("allow_udp", &access.allow_udp)];
    let allow_listen = rules("allow_listen", &access.allow_listen);
    let allow_listen_udp = rules("allow_listen_udp", &access.allow_listen_udp);
    Access {
        from: errors.take_all(&key("from"), access.from.iter().map(|text| text.parse())),
        keys: encryption::check_keys(&key("key"), &access.key.0, trusted, errors),
        allow,
        allow_udp,
        allow_listen,
        allow_listen_udp,
        proxy_protocol: access.proxy_protocol,
    }
}
