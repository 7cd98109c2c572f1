//! What DNS knows.

use core::future::Future;
use core::net::IpAddr;
use core::time::Duration;

/// A NAPTR record (RFC 3403 section 4), without its regular expression: those that have one are no use here (RFC 3263
/// section 4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naptr {
    /// Lower ones come first.
    pub order: u16,
    /// Among those of one order, lower ones come first.
    pub preference: u16,
    /// `s`: the replacement has SRV records; `a`: it has addresses.
    pub flags: Box<[u8]>,
    /// `SIP+D2U` and the like.
    pub service: Box<[u8]>,
    /// The next name.
    pub replacement: Box<str>,
}

/// An SRV record (RFC 2782).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Srv {
    /// Lower ones come first.
    pub priority: u16,
    /// Among those of one priority, how often it is first.
    pub weight: u16,
    /// The port.
    pub port: u16,
    /// The host; `.` if there is no such service.
    pub target: Box<str>,
}

/// Nobody could say: no name server answered, or none knew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoAnswer;

/// Records, none if there are no such ones; and for how long that is known.
pub type Asked<T> = Result<(Vec<T>, Duration), NoAnswer>;

/// Whoever can be asked.
pub trait Records {
    /// NAPTR records of a name.
    fn naptr(&self, name: &str) -> impl Future<Output = Asked<Naptr>>;
    /// SRV records of a name.
    fn srv(&self, name: &str) -> impl Future<Output = Asked<Srv>>;
    /// Addresses of a name, of one family.
    fn addresses(&self, name: &str, v6: bool) -> impl Future<Output = Asked<IpAddr>>;
}
