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
        '{"agreement":null,"digest":"'
        + "ab" * 32
        + '","exchange":0,"finals":[0],"parts":[],"phase":"rounds","proposals":[]'
        ',"reason":"weg f\\u00fcr heute","round":3,"settled":false,"signatures":'
        '{"0":"aa","2":"bb"},"time":1.5,"version":"0.0"}'
    )
    signature = (
        "4ba4ad6e2db7eb80007390d50f699fb1174195de242fe7459ec84d67322aa4ce"
        "20d0ca89f99685470317d8a50d1e3613c2963126993b476ed578859be21a2c0d"
    )
    head = bytes.fromhex("5050414402030100000017010000")
    assert note.encode(key(1)) == head + text.encode() + bytes.fromhex(signature)


@pytest.mark.parametrize(
    ("terms", "digest", "signature"),
    [
        (
            TERMS,
            "1c6caaadc728556fb291925dac1d41f66056271620c08833007ac8e36a135576",
            "fd3bd8f1678ff9e76647b2aa6ddff682d75e53a128ce920f89c62e3eda94046e"
            "0ae6b990271e1c04d315e2280c46c4f8270d68a383625b18da8d0e5718192d0d",
        ),
        (
            MORE_TERMS,
            "f9ab418e2090834d2a72be6f4c8116b827e30eec3daad38928e341c938836ed1",
            "f2422ba7b3b384678278bc14e226cde0e532bcb1473265bf44b7a3411f40755f"
            "353d9eb5afe42ad3464032e1d917f4458b1e27b2df43c96b40eef8aa49a2f607",
        ),
    ],
    ids=["defaults", "all"],
)
def test_an_agreement(terms, digest, signature):
    agreement = Agreement.from_dict(terms)
    assert agreement.digest == digest
    assert agreement.run == bytes.fromhex(digest)[:16]
    assert agreement.sign(key(0)).hex() == signature
