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
            "c6c0e48531ae079263008bf87833b3a76fccbf676d1f6e38ccf5ebe9b34b3e70",
            "97a3e683437eedb8195bf21c3471ef2985541207b625d650e537fe54fb858fd1"
            "c7f713bff8695837595bd858671ca5ce7d413e5331334568252ddba172965507",
        ),
        (
            MORE_TERMS,
            "844ebb71bfb1e1768ae2ccf715eec716cacdf7bc63899e0d5cb6b8e44caebdf7",
            "9cca2899464cdd4de305e77a645dab66e2274890863b5347b2e2f54155ce1b4a"
            "c1e2fdb902fa3b3d2715973b4d55a0757406cde828706e8952492bc37d7b5301",
        ),
    ],
    ids=["defaults", "all"],
)
def test_an_agreement(terms, digest, signature):
    agreement = Agreement.from_dict(terms)
    assert agreement.digest == digest
    assert agreement.run == bytes.fromhex(digest)[:16]
    assert agreement.sign(key(0)).hex() == signature
