//! ACK and CANCEL, which are derived from their request (RFC 3261 sections 9.1 and 17.1.1.3).

use bytes::BytesMut;

use crate::codec::{HeaderName, Index, Limits, Message, MessageWriter, Method, StatusCode, WriteError};

/// The headers from which ACK and CANCEL are derived.
pub(super) const OF_REQUEST: [HeaderName; 6] = [
    HeaderName::Via,
    HeaderName::Route,
    HeaderName::From,
    HeaderName::To,
    HeaderName::CallId,
    HeaderName::CSeq,
];

/// The headers from which further responses to the same request are derived.
pub(crate) const OF_RESPONSE: [HeaderName; 5] =
    [HeaderName::Via, HeaderName::From, HeaderName::To, HeaderName::CallId, HeaderName::CSeq];

/// An index for messages written by this server, which may exceed the limits for received ones.
pub(super) fn own_index() -> Index {
    let most = u32::MAX as usize;
    Index::with_limits(Limits { header_lines_max: most, header_bytes_max: most, body_bytes_max: most })
}

/// Writes a message reduced to its first line and the headers in `names`, without body. Of the Vias of a
/// request, only the topmost is kept.
pub(crate) fn pare(message: &Message<'_>, names: &[HeaderName], out: &mut BytesMut) {
    let bytes = message.as_bytes();
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").map_or(bytes.len(), |at| at + 2);
    out.extend_from_slice(bytes.get(..end).unwrap_or(bytes));
    for name in names {
        let most = if message.is_request() && *name == HeaderName::Via { 1 } else { usize::MAX };
        message.lines(*name).take(most).for_each(|line| out.extend_from_slice(line.line()));
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the ACK or CANCEL of `request`, with its request URI, its Routes and its topmost Via. An ACK takes
/// its To, with the tag, from the response.
pub(crate) fn derive(
    request: &Message<'_>,
    method: Method<'static>,
    response: Option<&Message<'_>>,
    out: &mut BytesMut,
) -> Result<(), WriteError> {
    let (Some(line), Ok(via), Ok(Some(cseq))) = (request.request_line(), request.via(), request.cseq())
    else {
        return Err(WriteError::Target);
    };
    let first = |message: &Message<'_>, name| message.lines(name).next().map(|line| line.value().to_vec());
    let host = via.host.to_string();
    let port = via.port.map_or(String::new(), |port| format!(":{port}"));
    let mut writer = MessageWriter::request(out, method, line.uri);
    writer.header_of(
        HeaderName::Via,
        &[
            b"SIP/2.0/",
            via.transport.as_bytes(),
            b" ",
            host.as_bytes(),
            port.as_bytes(),
            via.params.as_bytes(),
        ],
    );
    for route in request.lines(HeaderName::Route) {
        writer.copy(&route);
    }
    writer.header(HeaderName::MaxForwards, b"70");
    for (name, of) in [
        (HeaderName::From, request),
        (HeaderName::To, response.unwrap_or(request)),
        (HeaderName::CallId, request),
    ] {
        writer.header(name, &first(of, name).unwrap_or_default());
    }
    writer.header_of(HeaderName::CSeq, &[cseq.number.to_string().as_bytes(), b" ", method.as_bytes()]);
    writer.finish(b"")
}

/// Writes a response based on `last`, an earlier response to the same request.
pub(crate) fn respond_alike(
    last: &Message<'_>,
    code: StatusCode,
    to_tag: &[u8],
    out: &mut BytesMut,
) -> Result<(), WriteError> {
    let mut writer = MessageWriter::response(out, code, code.reason().as_bytes());
    for name in OF_RESPONSE {
        for line in last.lines(name) {
            let untagged =
                name == HeaderName::To && last.to().ok().flatten().is_some_and(|to| to.tag.is_none());
            if untagged {
                writer.header_of(name, &[line.value(), b";tag=", to_tag]);
            } else {
                writer.copy(&line);
            }
        }
    }
    writer.finish(b"")
}
