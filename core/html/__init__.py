"""Reports as one HTML file that needs nothing else: the page they share, and plots drawn in SVG."""
