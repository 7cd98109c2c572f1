//! DNS records.

use core::future::Future;
use core::net::IpAddr;
use core::time::Duration;

/// A NAPTR record (RFC 3403 section 4) without its regular expression. Records that have one are of no use
/// here (RFC 3263 section 4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naptr {
    /// Records with a lower order come first.
    pub order: u16,
    /// Within an order, records with a lower preference come first.
    pub preference: u16,
    /// `s`: the replacement has SRV records. `a`: it has addresses.
    pub flags: Box<[u8]>,
    /// The service, such as `SIP+D2U`.
    pub service: Box<[u8]>,
    /// The next name to look up.
    pub replacement: Box<str>,
}

/// An SRV record (RFC 2782).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Srv {
    /// Records with a lower priority come first.
    pub priority: u16,
    /// Relative weight among the records of one priority.
    pub weight: u16,
    /// The port.
    pub port: u16,
    /// The host; `.` if the service doesn't exist.
    pub target: Box<str>,
}

/// The query failed: no name server answered, or none could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoAnswer;

/// The records found, possibly none, and how long this result is valid.
pub type QueryResult<T> = Result<(Vec<T>, Duration), NoAnswer>;

/// A source of DNS records.
pub trait Records {
    /// Queries the NAPTR records of a name.
    fn naptr(&self, name: &str) -> impl Future<Output = QueryResult<Naptr>>;
    /// Queries the SRV records of a name.
    fn srv(&self, name: &str) -> impl Future<Output = QueryResult<Srv>>;
    /// Queries the addresses of a name: AAAA records if `v6` is set, otherwise A records.
    fn addresses(&self, name: &str, v6: bool) -> impl Future<Output = QueryResult<IpAddr>>;
}
