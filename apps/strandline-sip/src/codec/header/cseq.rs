//! CSeq (RFC 3261 section 20.16) and RAck (RFC 3262 section 7.2).

use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::ErrorKind;
use crate::codec::method::Method;

use super::values::{Element, sealed};

/// `number method`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// The sequence number. Those of requests are below 2^31, but any number of 32 bits is accepted.
    pub number: u32,
    /// The method.
    pub method: Method<'a>,
}

impl sealed::Sealed for CSeq<'_> {}

impl<'a> Element<'a> for CSeq<'a> {
    #[inline]
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let number = number_and_space(cursor, ErrorKind::Token)?;
        Ok(Self { number, method: Method::from_bytes(cursor.token()?) })
    }
}

/// `response-number CSeq-number method`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RAck<'a> {
    /// The RSeq of the provisional response.
    pub response: u32,
    /// The CSeq of that response.
    pub cseq: CSeq<'a>,
}

impl sealed::Sealed for RAck<'_> {}

impl<'a> Element<'a> for RAck<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let response = number_and_space(cursor, ErrorKind::Number)?;
        Ok(Self { response, cseq: CSeq::take(cursor)? })
    }
}

/// Takes a number and the white space that must follow it. Returns the error `missing` if there is no white
/// space.
#[inline]
fn number_and_space(cursor: &mut Cursor<'_>, missing: ErrorKind) -> Result<u32> {
    let number = cursor.number(u32::MAX)?;
    if !cursor.skip_space() {
        return Err(cursor.error(missing));
    }
    Ok(number)
}
