"""Certificates: who may connect, and under which name.

    site                      the project's authority            site
    new keys → request.pem →  approve (reads it, compares     →  join (checks it, keeps it)
                              the fingerprint by telephone)

A site has two private keys, which never leave it: one for TLS (ECDSA P-256, which every
organisation's authority can sign) and one for its messages (Ed25519). A certificate says the
agent's name (CN), the addresses of its endpoint (SAN) and, as a URI `urn:ppadmm:key:…` in the SAN,
the public half of its message key; the request proves that the site holds the TLS key.

A revoked name stays revoked: a site that lost a key makes new keys and asks under a new name. So a
peer needs to look at names only, which is what access control can see.
"""
