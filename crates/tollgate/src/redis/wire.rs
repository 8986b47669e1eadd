//! stub
#[derive(Debug)] pub(super) enum Reply { Simple(String), Error(String), Integer(i64), Bulk(Vec<u8>), Nil, Array(Vec<Reply>) }
pub(super) fn parse(_: &[u8]) -> Result<Option<(Reply, usize)>, String> { todo!() }
pub(super) fn write_command(_: &mut Vec<u8>, _: &[&[u8]]) { todo!() }
pub(super) fn begin(_: &mut Vec<u8>, _: usize) { todo!() }
pub(super) fn bulk(_: &mut Vec<u8>, _: &[u8]) { todo!() }
