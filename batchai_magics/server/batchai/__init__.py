"""The operations of the published 2018-05-01 API, each a plain function of a Service and a Call."""
