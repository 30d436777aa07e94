"use strict";
window.ui = SwaggerUIBundle({
  url: document.getElementById("swagger-ui").dataset.description,
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
});
