//! Keys of RFC 4895: the parameters of INIT and INIT ACK, endpoint pair shared keys, and the association
//! shared keys that are derived from both (section 6.1).

mod derivation;
mod parameters;

pub(crate) use self::derivation::KeyRing;
pub(super) use self::derivation::{Algorithm, Prepared, concatenate};
pub(super) use self::parameters::identifiers;
pub(crate) use self::parameters::{
    COOKIE_BYTES_MAX, CookieParameters, Fault, OwnParameters, PeerParameters, RANDOM_LEN, Received,
};
