//! The protocol of Redis.

use std::io::{Read, Write};

use sluicegate_testkit::raw_socket::connect;

use super::{Then, send_pieces, survives};

const QUESTION: &[u8] =
    b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$3\r\n999\r\n$1\r\n1\r\n$4\r\n3600\r\n";

#[test]
fn a_command_is_understood_wherever_it_is_cut() {
    survives(|sluicegate| {
        let mut stream = connect(sluicegate.resp.unwrap());
        let mut left = 999;
        for cut in 1..QUESTION.len() {
            let (first, rest) = QUESTION.split_at(cut);
            // In one write, so that the answer to the first command shows that the part has been seen alone.
            stream.write_all(&[b"PING\r\n", first].concat()).unwrap();
            let mut pong = [0; 7];
            stream.read_exact(&mut pong).unwrap();
            assert_eq!(&pong, b"+PONG\r\n");
            stream.write_all(rest).unwrap();
            let expected = format!("*5\r\n:0\r\n:1000\r\n:{left}\r\n:-1\r\n:");
            let mut reply = vec![0; expected.len()];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(String::from_utf8_lossy(&reply), expected, "cut at {cut}");
            let mut byte = [0];
            while byte != *b"\n" {
                stream.read_exact(&mut byte).unwrap();
            }
            left -= 1;
        }
    });
}

#[test]
fn a_command_that_comes_byte_by_byte_is_one_command() {
    survives(|sluicegate| {
        let reply = send_pieces(
            sluicegate.resp.unwrap(),
            Then::HangsUp,
            QUESTION.iter().map(|byte| vec![*byte]),
        );
        assert_eq!(reply.text, "*5\r\n:0\r\n:1000\r\n:999\r\n:-1\r\n:3600\r\n");
    });
}

#[test]
fn a_command_that_is_cut_short_is_answered_with_nothing() {
    survives(|sluicegate| {
        for length in 1..QUESTION.len() {
            assert_eq!(
                send_pieces(
                    sluicegate.resp.unwrap(),
                    Then::HangsUp,
                    [QUESTION[..length].to_vec()]
                )
                .text,
                "",
                "{length} bytes"
            );
        }
    });
}

#[test]
fn promises_of_size_and_depth_cost_nothing() {
    survives(|sluicegate| {
        let nested = b"*1\r\n".repeat(100_000);
        let shapes: [&[u8]; 12] = [
            &nested,
            b"*2\r\n*1\r\n$4\r\nPING\r\n$1\r\nx\r\n",
            b"*1\r\n$1099511627776\r\nPING\r\n",
            b"*1\r\n$18446744073709551616\r\n",
            b"*1099511627776\r\n$4\r\nPING\r\n",
            b"*1\r\n$65537\r\n",
            b"*1025\r\n",
            b"*1\r\n%1\r\n+a\r\n+b\r\n",
            b"*1\r\n$?\r\n;4\r\nPING\r\n;0\r\n",
            b"*?\r\n.\r\n",
            b"*1\r\n!3\r\nabc\r\n",
            b"*1\r\n=15\r\ntxt:Some string\r\n",
        ];
        for shape in shapes {
            let reply = send_pieces(sluicegate.resp.unwrap(), Then::HangsUp, [shape.to_vec()]);
            assert!(
                reply.text.starts_with("-ERR ") && reply.text.len() < 200,
                "{:?} {reply:?}",
                &shape[..shape.len().min(40)]
            );
        }
    });
}

#[test]
fn a_hundred_megabytes_are_not_listened_to() {
    survives(|sluicegate| {
        let megabyte = vec![b'x'; 1 << 20];
        for head in ["", "*1\r\n$104857600\r\n", "*1024\r\n$60000\r\n"] {
            let pieces = [head.as_bytes().to_vec()]
                .into_iter()
                .chain((0..100).map(|_| megabyte.clone()));
            let reply = send_pieces(sluicegate.resp.unwrap(), Then::HangsUp, pieces);
            assert!(reply.text.len() < 200, "{head:?} {reply:?}");
        }
    });
}
