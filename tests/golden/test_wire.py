"""What goes over the wire and what is signed: bytes that others hold, or compare with their own.

Signatures are Ed25519, so the same bytes under the same key are signed in the same way.
"""

import pytest

from ppadmm.peers.agreement import Agreement
from ppadmm.peers.control import ControlMessage
from ppadmm.peers.messages import FINAL, VALUE, Codec
from tests.golden.fixed import MORE_TERMS, RUN, TERMS, key, message

HEADS = {
    VALUE: "505041440201000102030405060708090a0b0c0d0e0f010000000600000004000000",
    FINAL: "505041440202000102030405060708090a0b0c0d0e0f010000000600000004000000",
}
NUMBERS = (
    "000000000000f83f000000000000008059f3f8c21f6ea5019a9999999999b93f"
    "0000000000001240000000000000008083b63ad29712c001343333333333d33f"
)
SIGNATURES = {
    VALUE: "f880c049a6214e64f58c455ecc1736f514eabed5e59c2db73c8f7f61485f3ac8"
    "2500efed8b8fbe64590ffc5ac89877b4a07f75a9437b45d2d4d26fb3eedab606",
    FINAL: "99dff66fde4ce0896a5c8ead583256533c09af9419038b43918d6f50fa26a793"
    "f014cccf6a163dde8cd68e48486369da9561eb12b545274ac2306e30bd64030f",
}


@pytest.mark.parametrize("kind", [VALUE, FINAL])
def test_a_message(kind):
    codec = Codec(RUN, 4, {i: key(i).public_key() for i in range(3)})
    data = bytes.fromhex(HEADS[kind] + NUMBERS + SIGNATURES[kind])
    assert codec.encode(message(), key(1), kind) == data
    assert codec.decode(data, kind).round == 6


def test_a_note_between_peers():
    note = ControlMessage(
        agent=1, version="0.0", time=1.5, digest="ab" * 32, phase="rounds", round=3,
        signatures={0: "aa", 2: "bb"}, finals=(0,), reason="weg für heute",
    )  # fmt: skip
    text = (
        '{"agreement":null,"digest":"' + "ab" * 32 + '","finals":[0],"phase":"rounds",'
        '"reason":"weg f\\u00fcr heute","round":3,"settled":false,'
        '"signatures":{"0":"aa","2":"bb"},"time":1.5,"version":"0.0"}'
    )
    signature = (
        "96b892563c3eefb4edddb40305baf466c03f4ecac8c124fe9e804fd0c630975b"
        "e96a161ffd85084a9dd02832bdbbfc82f28a965aeea40e05629e0a338f160c07"
    )
    head = bytes.fromhex("50504144020301000000f0000000")
    assert note.encode(key(1)) == head + text.encode() + bytes.fromhex(signature)


@pytest.mark.parametrize(
    ("terms", "digest", "signature"),
    [
        (
            TERMS,
            "07eccd0eaa426beb9d2f42ff51701431bdd2e1f5a63d349bf7c7acd21f4eb7ab",
            "f460c3b95208df023b6fe8479cfeade6a62b6f5ec73928be95e7cfd36c2fa34e"
            "686dc1e13aed3300a8745f003f57f3b069555494bb2442c9e4e912e40bc90f09",
        ),
        (
            MORE_TERMS,
            "e4ee3ee9bff1ccbbcd75a62bf4d4e46b5feb30530d22dd18958fe9db6ffe25a6",
            "8eee55d901f40ca139ce8b9fe92f516082bf1261cb2c5c57df96c97a1ccfe0ed"
            "6aeb36c66bb4f34d0cf398cc4c73d0269db2b22ef77e915c0337dc0c0ffb5700",
        ),
    ],
    ids=["defaults", "all"],
)
def test_an_agreement(terms, digest, signature):
    agreement = Agreement.from_dict(terms)
    assert agreement.digest == digest
    assert agreement.run == bytes.fromhex(digest)[:16]
    assert agreement.sign(key(0)).hex() == signature
