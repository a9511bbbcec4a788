"""What goes over the wire and what is signed: bytes that others hold, or compare with their own.

Signatures are Ed25519, so the same bytes under the same key are signed in the same way.
"""

import pytest

from ppadmm.peers.agreement import Agreement
from ppadmm.peers.control import ControlMessage
from ppadmm.peers.messages import FINAL, VALUE, Codec
from tests.golden.fixed import MORE_TERMS, RUN, TERMS, key, message

HEADS = {
    VALUE: "505041440101000102030405060708090a0b0c0d0e0f010000000600000004000000",
    FINAL: "505041440102000102030405060708090a0b0c0d0e0f010000000600000004000000",
}
NUMBERS = (
    "000000000000f83f000000000000008059f3f8c21f6ea5019a9999999999b93f"
    "0000000000001240000000000000008083b63ad29712c001343333333333d33f"
)
SIGNATURES = {
    VALUE: "0c8338b8aed9b5916ee03b72361923b26cb763e714e46915a01f1aa36775bf65"
    "9569cd89b0e88b9502758537719d5045f10a18e73ecb6c2790093e319111b706",
    FINAL: "ebff656209eac63aa918f76df4c66f8c715142669f15f7761498b35a9e3365d8"
    "5e10f84bedd43b2b730c6966b74b407d896c6bacce1868934574b8bd7a62ed0d",
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
        "b0c753769c6166e169579e71a91dac584774a91e617286280f8f1ae0e0394566"
        "f89b6b72849f7434c61557337c31d38a6482cda8509025b9775cde4de30c9302"
    )
    head = bytes.fromhex("50504144010301000000f0000000")
    assert note.encode(key(1)) == head + text.encode() + bytes.fromhex(signature)


@pytest.mark.parametrize(
    ("terms", "digest", "signature"),
    [
        (
            TERMS,
            "26ea47122300089d5b049aa8a910380b970d377ccc560cbcbf44ef8aee4b3a92",
            "c8379263bf54fbf62533823ed819abf9e49072d1ab03c6b4009c67eb44afa088"
            "8f49aff1110e34b2a3f6b8488b1241df65d696e07dd23087966671e1e541b50a",
        ),
        (
            MORE_TERMS,
            "7fd623184448792b3847c9831d733c09b0dbdca015be11ce2c7908fc75ce6d9b",
            "e649b60795d86f8a84e8360529b84828579212d3b78f10ea8cf9789b23e4d8ab"
            "4705e9a20b661eb6c7cfe8f7dbabae23d3bd44ebd424c5a22e3b39bbfe439f0a",
        ),
    ],
    ids=["defaults", "all"],
)
def test_an_agreement(terms, digest, signature):
    agreement = Agreement.from_dict(terms)
    assert agreement.digest == digest
    assert agreement.run == bytes.fromhex(digest)[:16]
    assert agreement.sign(key(0)).hex() == signature
