"""The operations of the published 2018-05-01 API, and our own client's extensions."""
