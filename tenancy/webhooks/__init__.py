"""Telling tenants of events over HTTP: where one may send, how it is signed, sent and tried again."""
