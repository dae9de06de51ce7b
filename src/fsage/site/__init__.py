"""A site before anything is changed: `fsage site` asks every host, judges, and makes a page for the site's owner."""
