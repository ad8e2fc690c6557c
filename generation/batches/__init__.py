"""A file of questions, asked of a collection as one offline job."""
